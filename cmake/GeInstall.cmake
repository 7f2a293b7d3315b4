# Installs every layer and the package config: find_package(graph_executor CONFIG) gives
# graph_executor::graph_executor.
include(CMakePackageConfigHelpers)

get_property(ge_libraries GLOBAL PROPERTY GE_LIBRARIES)
set(ge_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/graph_executor)
foreach(library IN LISTS ge_libraries)
  # ge_x_private is ge_x with more headers; those who link the installed library need ge_x alone.
  get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
  string(REGEX REPLACE "(LINK_ONLY:ge_[a-z]+)_private>" "\\1>" links "${links}")
  set_target_properties(${library} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")

  get_target_property(folder ${library} SOURCE_DIR)
  if(EXISTS ${folder}/include)
    install(DIRECTORY ${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
  endif()
endforeach()
set_target_properties(ge_capture PROPERTIES EXPORT_NAME graph_executor)
install(TARGETS ${ge_libraries} EXPORT graph_executor ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT graph_executor NAMESPACE graph_executor:: DESTINATION ${ge_config_dir}
  FILE graph_executorTargets.cmake)

configure_package_config_file(cmake/graph_executorConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/graph_executorConfig.cmake INSTALL_DESTINATION ${ge_config_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/graph_executorConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/graph_executorConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/graph_executorConfigVersion.cmake
  cmake/GeCudaDialect.cmake
  DESTINATION ${ge_config_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
