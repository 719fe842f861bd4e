# Install, export and describe the libraries for other builds.
include(CMakePackageConfigHelpers)
set(RD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/redelta)

install(TARGETS redelta_shared redelta_static EXPORT redelta-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/redelta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT redelta-targets NAMESPACE redelta:: DESTINATION ${RD_CMAKE_DIR})
configure_package_config_file(cmake/redelta-config.cmake.in redelta-config.cmake
  INSTALL_DESTINATION ${RD_CMAKE_DIR})
write_basic_package_version_file(redelta-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redelta-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/redelta-config-version.cmake DESTINATION ${RD_CMAKE_DIR})
configure_file(cmake/redelta.pc.in redelta.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redelta.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
