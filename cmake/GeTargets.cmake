include(GNUInstallDirs)
find_package(Threads REQUIRED)

# Warnings, for the project's own targets only.
add_library(ge_flags INTERFACE)
target_compile_options(ge_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Wshadow>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;--display-error-number>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 warns of `"text" + std::string` (GCC bug 105651).
  target_compile_options(ge_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict>)
endif()
if(GE_WARNINGS_AS_ERRORS)
  target_compile_options(ge_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xcompiler=-Werror>)
endif()

# ge_library(name SOURCES ... PUBLIC_LINK ... PRIVATE_LINK ...): one layer. Its include/ is public, its
# private/ is seen by the project's own targets that link ge_<name>_private.
function(ge_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  add_library(graph_executor::${name} ALIAS ${name})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/private)
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name}
    PUBLIC ${arg_PUBLIC_LINK} PRIVATE $<BUILD_INTERFACE:ge_flags> Threads::Threads ${arg_PRIVATE_LINK})
  add_library(${name}_private INTERFACE)
  target_include_directories(${name}_private INTERFACE ${CMAKE_CURRENT_SOURCE_DIR}/private)
  target_link_libraries(${name}_private INTERFACE ${name})
  set_property(GLOBAL APPEND PROPERTY GE_LIBRARIES ${name})
endfunction()
