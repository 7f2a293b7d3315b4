# Finds a CUDA compiler and enables the language, or says why not. A macro where it has to be:
# enable_language() belongs to the directory that calls it.

set(GE_MINIMUM_CUDA 13.0)           # stream capture and graph edges with edge data
set(GE_OLDEST_ARCHITECTURE 75)      # what nvcc 13 still compiles for
# Machine code for 8.x and 9.0, and PTX for everything newer.
set(GE_DEFAULT_ARCHITECTURES "80-real;90")

# Stops with a sentence where `architectures` names something nvcc cannot compile for; left
# to CMake, the compiler test would fail with a page of nvcc output.
function(ge_check_architectures architectures nvcc)
  foreach(architecture IN LISTS architectures)
    if(architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
      if(CMAKE_MATCH_1 LESS GE_OLDEST_ARCHITECTURE)
        message(FATAL_ERROR
          "CMAKE_CUDA_ARCHITECTURES has ${architecture}, but CUDA ${GE_MINIMUM_CUDA} and newer compile "
          "only for compute capability 7.5 (75) and above. Leave it unset for the default "
          "(${GE_DEFAULT_ARCHITECTURES}), or name your GPU: 80, 86, 89, 90, ...")
      endif()
    elseif(architecture STREQUAL "native")
      get_filename_component(folder "${nvcc}" DIRECTORY)
      execute_process(COMMAND ${folder}/__nvcc_device_query
        OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET)
      if(failed OR NOT found MATCHES "[0-9]")
        message(FATAL_ERROR
          "CMAKE_CUDA_ARCHITECTURES=native asks for this machine's GPU, and none was found. "
          "Name the architecture of the GPU the program will run on: 80, 86, 89, 90, ...")
      endif()
    elseif(NOT architecture MATCHES "^(all|all-major|OFF|NO|FALSE|0)$")
      message(FATAL_ERROR
        "CMAKE_CUDA_ARCHITECTURES has '${architecture}', which is no architecture. "
        "Examples: 90, 80-real, 90a-real, 'all-major', 'native'; several are separated by ';'.")
    endif()
  endforeach()
endfunction()

# Sets `nvcc` to the compiler the user named or one found in the usual places, else to "".
function(ge_find_nvcc result)
  set(nvcc "")
  if(DEFINED CMAKE_CUDA_COMPILER)
    if(CMAKE_CUDA_COMPILER)
      find_program(nvcc_path NAMES ${CMAKE_CUDA_COMPILER} NO_CACHE)
    endif()
  elseif(DEFINED ENV{CUDACXX})
    find_program(nvcc_path NAMES $ENV{CUDACXX} NO_CACHE)
  else()
    find_program(nvcc_path NAMES nvcc NO_CACHE
      HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  endif()
  if(nvcc_path)
    set(nvcc "${nvcc_path}")
  endif()
  set(${result} "${nvcc}" PARENT_SCOPE)
endfunction()

# Sets `result` to what nvcc says against a program in C++20, "" if it compiles. Tried once.
function(ge_try_nvcc nvcc result)
  if(NOT GE_NVCC_TRIED STREQUAL nvcc)
    set(folder "${CMAKE_BINARY_DIR}/CMakeFiles/GeTryNvcc")
    file(WRITE "${folder}/try.cu"
      "#include <concepts>\n__global__ void f(int* p) { *p = std::same_as<int, int>; }\n")
    set(host_compiler "")
    if(CMAKE_CUDA_HOST_COMPILER)
      set(host_compiler -ccbin ${CMAKE_CUDA_HOST_COMPILER})
    endif()
    execute_process(COMMAND ${nvcc} ${host_compiler} -std=c++20 -c try.cu -o try.o
      WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE failed)
    if(failed)
      string(STRIP "${said}" said)
      set(${result} "${said}" PARENT_SCOPE)
      return()
    endif()
    set(GE_NVCC_TRIED "${nvcc}" CACHE INTERNAL "the nvcc that has compiled a program")
  endif()
  set(${result} "" PARENT_SCOPE)
endfunction()

# ge_enable_cuda(<enabled> <why>): sets <enabled> to ON, or to OFF and <why> to the reason.
macro(ge_enable_cuda enabled why)
  set(${enabled} OFF)
  set(${why} "")
  ge_find_nvcc(ge_nvcc)
  if(NOT ge_nvcc)
    set(${why} "no CUDA compiler (nvcc) was found")
  else()
    execute_process(COMMAND ${ge_nvcc} --version OUTPUT_VARIABLE ge_nvcc_says ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ge_nvcc_release "${ge_nvcc_says}")
    set(ge_nvcc_release "${CMAKE_MATCH_1}")
    if(NOT ge_nvcc_release)
      set(${why} "${ge_nvcc} does not say which CUDA release it is of")
    elseif(ge_nvcc_release VERSION_LESS GE_MINIMUM_CUDA)
      set(${why} "${ge_nvcc} is of CUDA ${ge_nvcc_release}, and ${GE_MINIMUM_CUDA} is the oldest that works")
    endif()
  endif()
  if(NOT ${why})
    set(ge_architectures "${CMAKE_CUDA_ARCHITECTURES}")
    if(ge_architectures STREQUAL "")
      set(ge_architectures "$ENV{CUDAARCHS}")
    endif()
    if(ge_architectures STREQUAL "")
      set(ge_architectures "${GE_DEFAULT_ARCHITECTURES}")
    endif()
    ge_check_architectures("${ge_architectures}" "${ge_nvcc}")
    if("${CMAKE_CUDA_ARCHITECTURES}" STREQUAL "")
      set(CMAKE_CUDA_ARCHITECTURES "${ge_architectures}" CACHE STRING "CUDA architectures" FORCE)
    endif()
    ge_try_nvcc("${ge_nvcc}" ge_nvcc_complaint)
    if(ge_nvcc_complaint)
      set(${why} "${ge_nvcc} cannot compile a C++20 program: ${ge_nvcc_complaint}")
    else()
      if(NOT CMAKE_CUDA_COMPILER)
        set(ENV{CUDACXX} "${ge_nvcc}")
      endif()
      enable_language(CUDA)
      find_package(CUDAToolkit ${GE_MINIMUM_CUDA} REQUIRED)
      include(GeCudaDialect)
      set(CMAKE_CUDA_STANDARD 20)
      set(CMAKE_CUDA_STANDARD_REQUIRED ON)
      set(${enabled} ON)
      message(STATUS "graph_executor: CUDA ${CUDAToolkit_VERSION} for architectures ${CMAKE_CUDA_ARCHITECTURES}")
    endif()
  endif()
endmacro()
