# CMake 3.25 does not know that nvcc 12 and 13 have a C++20 dialect: it refuses CUDA sources in targets that
# ask for cxx_std_20. Read by the build and by the installed package config, so that CUDA sources of a user,
# too, may link the library.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION
   AND (NOT CMAKE_CUDA_COMPILER_ID OR CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA"))
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
