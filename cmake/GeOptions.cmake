# What is built. Sets GE_CUDA to whether the CUDA target is part of this build.

set(GE_WITH_CUDA AUTO CACHE STRING "Build the CUDA target: AUTO (where a toolkit is found), ON, OFF")
set_property(CACHE GE_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)
option(GE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(GE_BUILD_SAMPLES "Build the samples" ${PROJECT_IS_TOP_LEVEL})
option(GE_BUILD_BENCH "Build the benchmarks" OFF)
option(GE_BUILD_PYTHON "Build the Python module" OFF)
option(GE_INSTALL "Add install rules and the package config" ${PROJECT_IS_TOP_LEVEL})
option(GE_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
set(GE_SANITIZE "" CACHE STRING "Sanitizers for everything, e.g. address;undefined")

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(GE_SANITIZE)
  list(JOIN GE_SANITIZE "," sanitizers)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${sanitizers}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${sanitizers})
endif()

set(GE_CUDA OFF)
string(TOUPPER "${GE_WITH_CUDA}" with_cuda)
if(with_cuda STREQUAL "AUTO")
  include(GeCuda)
  ge_enable_cuda(GE_CUDA why)
  if(NOT GE_CUDA)
    message(STATUS "graph_executor: host target only, without CUDA: ${why}")
  endif()
elseif(GE_WITH_CUDA)
  include(GeCuda)
  ge_enable_cuda(GE_CUDA why)
  if(NOT GE_CUDA)
    message(FATAL_ERROR "GE_WITH_CUDA=${GE_WITH_CUDA}, but ${why}. "
      "Set CMAKE_CUDA_COMPILER, CUDACXX or CUDA_HOME, or configure with -DGE_WITH_CUDA=OFF.")
  endif()
endif()
