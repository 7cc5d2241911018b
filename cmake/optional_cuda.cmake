# The language CUDA where nvcc is found; without it everything but libdlflow_cuda is built.

include(CheckLanguage)
set(CMAKE_CUDA_ARCHITECTURES "80-virtual;90-real")  # machine code for H100 and H200; others compile the rest at load
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
