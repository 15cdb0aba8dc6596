# Embeds the files of a new plugin in the program: generated/new_plugin_templates.h.
foreach(pair CMAKE:CMakeLists.txt PLUGIN:plugin.cpp LADDER:ladder.lua README:README.md
        KERNEL_CMAKE:kernel_CMakeLists.txt KERNEL_PLUGIN:kernel_plugin.cpp KERNEL_LADDER:kernel_ladder.lua
        KERNEL:kernel.cu KERNEL_TEST:kernel_test.cpp OPTIMIZER_PLUGIN:optimizer_plugin.cpp
        OPTIMIZER_LADDER:optimizer_ladder.lua)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  set(file ${CMAKE_CURRENT_LIST_DIR}/${file}.in)
  file(READ ${file} OPTRUSH_TEMPLATE_${name})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
endforeach()
configure_file(${CMAKE_CURRENT_LIST_DIR}/templates.h.in ${CMAKE_BINARY_DIR}/generated/new_plugin_templates.h @ONLY)
