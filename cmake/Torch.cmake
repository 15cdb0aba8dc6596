# LibTorch as imported targets, without find_package(Torch), which demands a CUDA toolkit.
#   Torch::cpu     c10, torch_cpu, torch
#   Torch::cuda    c10_cuda, libcudart and CUDA's headers: enough to compile every GPU path. libtorch_cuda itself is
#                  opened at run time if there is a driver, because it takes 350 MB and 0.1 s, which a CPU run does not need.
#   Torch::cudnn   Torch::cuda with the headers of cuDNN and of its graphs, if they exist (OPTRUSH_HAS_CUDNN)
#   Torch::torch_cuda  libtorch_cuda, if NCCL's header exists (OPTRUSH_HAS_NCCL): for libraries that are opened after it
# Input: OPTRUSH_TORCH, a LibTorch folder or the folder of a Python torch package. Default: the project's .venv.
if(NOT OPTRUSH_TORCH)
  file(GLOB _torch_candidates ${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/torch)
  foreach(_prefix ${CMAKE_PREFIX_PATH})
    if(EXISTS ${_prefix}/include/torch/script.h)
      list(APPEND _torch_candidates ${_prefix})
    endif()
  endforeach()
  if(_torch_candidates)
    list(GET _torch_candidates 0 OPTRUSH_TORCH_DIR)
  endif()
else()
  get_filename_component(OPTRUSH_TORCH_DIR ${OPTRUSH_TORCH} ABSOLUTE)
endif()
if(NOT OPTRUSH_TORCH_DIR OR NOT EXISTS ${OPTRUSH_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No LibTorch in '${OPTRUSH_TORCH_DIR}' (lib/libtorch_cpu.so is not there). Run ./optrush setup, or give "
                      "-DOPTRUSH_TORCH=<LibTorch folder, or the folder of a Python torch package>.")
endif()

file(STRINGS ${OPTRUSH_TORCH_DIR}/include/torch/headeronly/version.h _torch_version
     REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" _torch_version "${_torch_version}")
list(JOIN _torch_version "." OPTRUSH_TORCH_VERSION)
set(OPTRUSH_CUDA_VERSION none)
if(EXISTS ${OPTRUSH_TORCH_DIR}/version.py)
  file(STRINGS ${OPTRUSH_TORCH_DIR}/version.py _cuda_line REGEX "^cuda")
elseif(EXISTS ${OPTRUSH_TORCH_DIR}/build-version)
  file(STRINGS ${OPTRUSH_TORCH_DIR}/build-version _cuda_line REGEX "cu")
  string(REGEX REPLACE ".*cu([0-9]+)([0-9])$" "\\1.\\2" _cuda_line "${_cuda_line}")
endif()
if(_cuda_line MATCHES "([0-9]+\\.[0-9]+)")
  set(OPTRUSH_CUDA_VERSION ${CMAKE_MATCH_1})
endif()
string(REGEX MATCH "^[0-9]+" _compiler_major "${CMAKE_CXX_COMPILER_VERSION}")
string(TOLOWER "${CMAKE_CXX_COMPILER_ID}" _compiler_id)
# The part of the ABI that a plugin's build can check before it compiles; optrush/host/abi.h has all of it.
set(OPTRUSH_BUILT_WITH "${_compiler_id} ${_compiler_major}, torch ${OPTRUSH_TORCH_VERSION}, cuda ${OPTRUSH_CUDA_VERSION}")
message(STATUS "LibTorch ${OPTRUSH_TORCH_VERSION} (CUDA ${OPTRUSH_CUDA_VERSION}) in ${OPTRUSH_TORCH_DIR}")

function(_torch_library target file)
  if(NOT TARGET ${target})
    add_library(${target} SHARED IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file} IMPORTED_NO_SONAME TRUE)
  endif()
endfunction()
_torch_library(Torch::c10 ${OPTRUSH_TORCH_DIR}/lib/libc10.so)
_torch_library(Torch::torch_cpu ${OPTRUSH_TORCH_DIR}/lib/libtorch_cpu.so)
set_target_properties(Torch::c10 Torch::torch_cpu PROPERTIES IMPORTED_NO_SONAME FALSE)

add_library(Torch::cpu INTERFACE IMPORTED GLOBAL)
target_include_directories(
  Torch::cpu SYSTEM INTERFACE ${OPTRUSH_TORCH_DIR}/include ${OPTRUSH_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(Torch::cpu INTERFACE USE_DISTRIBUTED USE_C10D_GLOO USE_RPC _GLIBCXX_USE_CXX11_ABI=1)
target_link_libraries(Torch::cpu INTERFACE Torch::torch_cpu Torch::c10)

# at::parallel_for is a template that uses OpenMP threads only if its caller is compiled with -fopenmp. It is linked with the
# runtime of LibTorch, because the threads of a second runtime in the process would compete for the cores. Clang's code needs
# another runtime (libomp), and ThreadSanitizer does not see the barriers of libgomp. With these two, loops run on one thread.
file(GLOB _openmp_runtime ${OPTRUSH_TORCH_DIR}/lib/libgomp*.so*)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND _openmp_runtime AND NOT OPTRUSH_SANITIZE STREQUAL thread)
  list(GET _openmp_runtime 0 _openmp_runtime)
  _torch_library(Torch::openmp ${_openmp_runtime})
  set_target_properties(Torch::openmp PROPERTIES IMPORTED_NO_SONAME FALSE)
  target_compile_options(Torch::cpu INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
  target_link_libraries(Torch::cpu INTERFACE Torch::openmp)
else()
  message(STATUS "Loops of plugins over CPU tensors run on one thread: this build has no OpenMP")
endif()

add_library(Torch::cuda INTERFACE IMPORTED GLOBAL)
set(OPTRUSH_HAS_CUDA OFF)
set(OPTRUSH_HAS_NCCL OFF)
set(OPTRUSH_HAS_CUDNN OFF)
if(NOT OPTRUSH_CUDA_VERSION STREQUAL none)
  get_filename_component(_site ${OPTRUSH_TORCH_DIR} DIRECTORY)
  set(_cuda_includes ${_site}/nvidia/cu13/include ${_site}/nvidia/cuda_runtime/include /usr/local/cuda/include)
  # The headers that the runtime's headers include are in separate wheels: cuda-toolkit[crt,cccl].
  find_path(OPTRUSH_CUDA_INCLUDE cuda_runtime_api.h PATHS ${_cuda_includes} NO_DEFAULT_PATH)
  find_path(OPTRUSH_CUDA_CRT_INCLUDE crt/host_defines.h PATHS ${_cuda_includes} NO_DEFAULT_PATH)
  find_path(OPTRUSH_CUDA_CCCL_INCLUDE nv/target PATHS ${_cuda_includes} PATH_SUFFIXES cccl NO_DEFAULT_PATH)
  find_library(OPTRUSH_CUDART NAMES libcudart.so.13 libcudart.so.12 cudart
               PATHS ${_site}/nvidia/cu13/lib ${_site}/nvidia/cuda_runtime/lib /usr/local/cuda/lib64
                     ${OPTRUSH_TORCH_DIR}/lib NO_DEFAULT_PATH)
  find_path(OPTRUSH_NCCL_INCLUDE nccl.h PATHS ${_site}/nvidia/nccl/include /usr/include NO_DEFAULT_PATH)
  if(OPTRUSH_CUDA_INCLUDE AND OPTRUSH_CUDA_CRT_INCLUDE AND OPTRUSH_CUDA_CCCL_INCLUDE AND OPTRUSH_CUDART)
    set(OPTRUSH_HAS_CUDA ON)
    _torch_library(Torch::c10_cuda ${OPTRUSH_TORCH_DIR}/lib/libc10_cuda.so)
    _torch_library(Torch::cudart ${OPTRUSH_CUDART})
    set_target_properties(Torch::c10_cuda Torch::cudart PROPERTIES IMPORTED_NO_SONAME FALSE)
    target_include_directories(Torch::cuda SYSTEM INTERFACE ${OPTRUSH_CUDA_INCLUDE} ${OPTRUSH_CUDA_CRT_INCLUDE}
                                                            ${OPTRUSH_CUDA_CCCL_INCLUDE})
    if(OPTRUSH_NCCL_INCLUDE)
      target_include_directories(Torch::cuda SYSTEM INTERFACE ${OPTRUSH_NCCL_INCLUDE})
      target_compile_definitions(Torch::cuda INTERFACE USE_C10D_NCCL)
      if(EXISTS ${OPTRUSH_TORCH_DIR}/lib/libtorch_cuda.so)
        set(OPTRUSH_HAS_NCCL ON)
        _torch_library(Torch::torch_cuda ${OPTRUSH_TORCH_DIR}/lib/libtorch_cuda.so)
        set_target_properties(Torch::torch_cuda PROPERTIES IMPORTED_NO_SONAME FALSE)
      endif()
    endif()
    target_link_libraries(Torch::cuda INTERFACE Torch::c10_cuda Torch::cudart)
    target_compile_definitions(Torch::cuda INTERFACE OPTRUSH_HAS_CUDA=1)
    # Plugins need only the headers, because libtorch_cuda loads cuDNN. A test opens the library.
    file(GLOB _venv_includes ${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/include)
    find_path(OPTRUSH_CUDNN_INCLUDE cudnn.h PATHS ${_site}/nvidia/cudnn/include /usr/local/cuda/include /usr/include
              NO_DEFAULT_PATH)
    find_path(OPTRUSH_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h PATHS ${_site}/include ${_venv_includes} NO_DEFAULT_PATH)
    find_library(OPTRUSH_CUDNN NAMES libcudnn.so.9 PATHS ${_site}/nvidia/cudnn/lib NO_DEFAULT_PATH)
    if(OPTRUSH_CUDNN_INCLUDE AND OPTRUSH_CUDNN_FRONTEND_INCLUDE)
      set(OPTRUSH_HAS_CUDNN ON)
      add_library(Torch::cudnn INTERFACE IMPORTED GLOBAL)
      target_include_directories(Torch::cudnn SYSTEM INTERFACE ${OPTRUSH_CUDNN_INCLUDE} ${OPTRUSH_CUDNN_FRONTEND_INCLUDE})
      target_link_libraries(Torch::cudnn INTERFACE Torch::cuda)
      target_compile_definitions(Torch::cudnn INTERFACE OPTRUSH_HAS_CUDNN=1)
    else()
      message(STATUS "cuDNN's headers are not all beside this LibTorch (pip install nvidia-cudnn-frontend): its graphs "
                     "are not built")
    endif()
  else()
    message(STATUS "CUDA's headers are not all beside this LibTorch (pip install cuda-toolkit[cudart,crt,cccl], of its "
                   "CUDA version): GPU paths are not built")
  endif()
endif()

# Folders of the libraries above, for run paths.
set(OPTRUSH_TORCH_RPATH ${OPTRUSH_TORCH_DIR}/lib)
if(OPTRUSH_HAS_CUDA)
  get_filename_component(_cudart_dir ${OPTRUSH_CUDART} DIRECTORY)
  list(APPEND OPTRUSH_TORCH_RPATH ${_cudart_dir})
endif()
