# optrush_add_plugin(NAME SOURCES file... [LIBS target...] [NO_INSTALL])
# Builds the library NAME.so: linked against optrush::core, without undefined symbols, with hidden visibility and the identity
# note. The project's plugins use this function, and so do other plugins, from the installed SDK.
function(optrush_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "NO_INSTALL" "" "SOURCES;LIBS")
  if(NOT ARG_SOURCES)
    message(FATAL_ERROR "optrush_add_plugin(${name}): no SOURCES")
  endif()
  add_library(${name} MODULE ${ARG_SOURCES})
  if(TARGET optrush_core)
    set(_core optrush_core)
  else()
    set(_core OptimizationRush::core)
  endif()
  target_link_libraries(${name} PRIVATE ${_core} ${ARG_LIBS})
  target_compile_features(${name} PRIVATE cxx_std_20)
  target_compile_definitions(${name} PRIVATE "OPTRUSH_TORCH_CUDA=\"${OPTRUSH_CUDA_VERSION}\"")
  target_link_options(${name} PRIVATE -Wl,-z,defs)
  set_target_properties(
    ${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                       LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins
                       INSTALL_RPATH "$ORIGIN/../..;$ORIGIN/../lib;${OPTRUSH_TORCH_RPATH}"
                       BUILD_WITH_INSTALL_RPATH ON)
  if(NOT ARG_NO_INSTALL)
    install(TARGETS ${name} LIBRARY DESTINATION ${OPTRUSH_INSTALL_PLUGINS})
  endif()
  if(TARGET optrush_warnings)
    target_link_libraries(${name} PRIVATE optrush_warnings)
  endif()
  if(TARGET optrush-plugins AND NOT ARG_NO_INSTALL)
    add_dependencies(optrush-plugins ${name})
  endif()
endfunction()
