# The language CUDA where nvcc is found; without it everything but libdlflow_cuda is built.

include(CheckLanguage)
# Machine code for A100, A10, L4 and L40, H100 and H200; newer ones compile the PTX when they load it, which takes a driver
# that is as new as nvcc.
set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90)
if(DLFLOW_SANITIZE)
  message(STATUS "Sanitizers: no libdlflow_cuda")
  return()
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # what CMake 3.25 can ask nvcc for
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()
