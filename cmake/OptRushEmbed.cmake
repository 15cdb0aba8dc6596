# optrush_embed(TARGET FILE CONSTANT)
# Makes the text of FILE a constant of the target's sources: #include "<name of FILE without its ending>_<ending>.h"
# gives `inline constexpr char CONSTANT[]`. A change of FILE builds what includes it again.
function(optrush_embed target file constant)
  get_filename_component(_path ${file} ABSOLUTE)
  get_filename_component(_name ${file} NAME)
  string(REPLACE "." "_" _header ${_name})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_path})
  file(READ ${_path} OPTRUSH_EMBED_TEXT)
  set(OPTRUSH_EMBED_CONSTANT ${constant})
  set(_folder ${CMAKE_BINARY_DIR}/generated/embedded/${target})
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embedded.h.in ${_folder}/${_header}.h @ONLY)
  target_include_directories(${target} PRIVATE ${_folder})
endfunction()
