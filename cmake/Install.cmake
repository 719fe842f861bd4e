# Install, export and describe the libraries for other builds. Nothing here names the prefix: a tree
# installed with `cmake --install build --prefix X`, or moved later, describes itself.
include(CMakePackageConfigHelpers)
set(RD_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/redelta)
set(RD_LIBRARIES redelta_shared redelta_static)
set(RD_PKGCONFIG redelta)
if(TARGET redelta-npu)
  list(APPEND RD_LIBRARIES redelta-npu redelta-npu-shared)
  list(APPEND RD_PKGCONFIG redelta-npu)
endif()

set(RD_LEFT_OUT PATTERN mpi.h EXCLUDE)
if(TARGET redelta-mpi-shared)
  # An export of its own: who does not ask for the component needs no MPI.
  install(TARGETS redelta-mpi-shared redelta-mpi-static EXPORT redelta-mpi-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT redelta-mpi-targets NAMESPACE redelta:: DESTINATION ${RD_CMAKE_DIR})
  if(TARGET redelta-mpi)
    install(TARGETS redelta-mpi RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    install(FILES ${PROJECT_BINARY_DIR}/redelta-mpi.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
  endif()
  list(APPEND RD_PKGCONFIG redelta-mpi)
  set(RD_LEFT_OUT "")
endif()

install(TARGETS ${RD_LIBRARIES} EXPORT redelta-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET redelta)
  install(TARGETS redelta RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/redelta DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${RD_LEFT_OUT})
install(EXPORT redelta-targets NAMESPACE redelta:: DESTINATION ${RD_CMAKE_DIR})
configure_package_config_file(cmake/redelta-config.cmake.in redelta-config.cmake
  INSTALL_DESTINATION ${RD_CMAKE_DIR})
write_basic_package_version_file(redelta-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/redelta-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/redelta-config-version.cmake DESTINATION ${RD_CMAKE_DIR})

# pkg-config finds the prefix from the place of the file; folders given as absolute paths stay so.
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" up "${up}")
set(RD_PC_PREFIX "\${pcfiledir}/${up}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(RD_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
endif()
foreach(dir LIBDIR INCLUDEDIR)
  set(RD_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(RD_PC_${dir} "${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
foreach(name ${RD_PKGCONFIG})
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md RELEASING.md SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
