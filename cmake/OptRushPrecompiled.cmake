# optrush_precompile(TARGET <a> <b>...): precompiles these headers and the JSON library for the target's files.
function(optrush_precompile target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled)
  target_precompile_headers(${target} PRIVATE <json_without_literals.h> ${ARGN})
endfunction()

# Headers that many files include are parsed once. GCC accepts a precompiled header only with the same options for code
# generation, so one target makes it for all targets with these options:
#
#   optrush_precompiled_headers(NAME HEADERS <a> <b>... [LIBS targets])
#   target_precompile_headers(other REUSE_FROM NAME)
function(optrush_precompiled_headers name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "HEADERS;LIBS")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} optrush_warnings)
  optrush_precompile(${name} ${ARG_HEADERS})
endfunction()
