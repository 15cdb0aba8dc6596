# Headers that many files of one kind read are parsed once. GCC takes a precompiled header only where code is generated with
# the same options, so one target makes it for its kind:
#
#   optrush_precompiled_headers(NAME HEADERS <a> <b>... [LIBS targets])
#   target_precompile_headers(other REUSE_FROM NAME)
function(optrush_precompiled_headers name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;LIBS")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} optrush_warnings)
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()
