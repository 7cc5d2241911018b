# The language CUDA where nvcc is found; without it everything but libdlflow_cuda is built.

include(CheckLanguage)
# Machine code for A100 (also runs on A10, L4 and L40) and for H100 and H200; on newer GPUs the driver compiles the PTX when loading
# it, and must be as new as nvcc.
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
if(DLFLOW_SANITIZE)
  message(STATUS "Sanitizers: no libdlflow_cuda")
  return()
endif()
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # the newest that CMake 3.25 supports for nvcc
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()
