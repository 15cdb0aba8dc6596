# ccache, mold, warnings and sanitizers for the project's targets: target optrush_warnings.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # ccache can store a precompiled header only if its time stamp is ignored.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${CCACHE_PROGRAM})
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # After a large precompiled header GCC collects its garbage often. With these limits a file takes about a tenth less
  # CPU time, and at most a quarter more memory.
  add_compile_options(--param=ggc-min-heapsize=1500000 --param=ggc-min-expand=1000)
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  # Segments on separate pages: otherwise mold 1.10 links some files that cannot be loaded (tests/install/loadable_test.py).
  add_link_options(-fuse-ld=mold -Wl,-z,separate-code)
endif()

add_library(optrush_warnings INTERFACE)
target_compile_options(optrush_warnings INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of GCC 12 on std::string + (GCC bug 105651).
  target_compile_options(optrush_warnings INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
endif()
# Most files call LibTorch or format text. With -O2 they would take a quarter more CPU time to compile, and not run faster.
# Loops over elements are in folders named cpu/, which get -O2 (OptRushPluginFolder.cmake).
set(OPTRUSH_OPTIMIZATION -O1)
set(CMAKE_CXX_FLAGS_RELEASE "${OPTRUSH_OPTIMIZATION} -DNDEBUG")

# The installed files then contain no path of the build machine: __FILE__ starts at the project's root, and in headers of
# LibTorch at site-packages.
macro(optrush_relative_file_names)
  if(OPTRUSH_RELATIVE_FILE_NAMES)
    get_filename_component(_site ${OPTRUSH_TORCH_DIR} DIRECTORY)
    add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}/=
                        -ffile-prefix-map=${_site}/=)
  endif()
endmacro()
if(OPTRUSH_SANITIZE)
  set(_sanitizers_address address,undefined)
  set(_sanitizers_thread thread)
  if(NOT DEFINED _sanitizers_${OPTRUSH_SANITIZE})
    message(FATAL_ERROR "OPTRUSH_SANITIZE is address or thread, not ${OPTRUSH_SANITIZE}")
  endif()
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fsanitize=${_sanitizers_${OPTRUSH_SANITIZE}})
  target_compile_options(optrush_warnings INTERFACE -Wno-maybe-uninitialized)  # GCC: false alarms in the code that sanitizers add
  if(OPTRUSH_SANITIZE STREQUAL address)
    # AddressSanitizer also finds null pointers and accesses beyond an object. These checks would triple the compile time.
    # LibTorch does not export the types that vptr compares.
    add_compile_options(-fno-sanitize=null,object-size,alignment,vptr)
  endif()
  add_link_options(-fsanitize=${_sanitizers_${OPTRUSH_SANITIZE}})
endif()
if(OPTRUSH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "OPTRUSH_FUZZ needs clang, which has libFuzzer: -DCMAKE_CXX_COMPILER=clang++ "
                        "(Debian: clang and libclang-rt-14-dev)")
  endif()
  # With assertions of the standard library and of the JSON library: a failed assertion is a finding.
  add_compile_options(-O1 -gline-tables-only -UNDEBUG -D_GLIBCXX_ASSERTIONS -fno-omit-frame-pointer
                      -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined,float-cast-overflow)
endif()
