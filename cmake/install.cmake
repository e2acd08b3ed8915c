# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the package that find_package(loft) reads.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_DATADIR}/cmake/loft")
install(TARGETS loft EXPORT loftTargets
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILE_SET opt_in DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT loftTargets NAMESPACE loft:: DESTINATION "${package_folder}")

configure_package_config_file(cmake/loftConfig.cmake.in "${PROJECT_BINARY_DIR}/loftConfig.cmake"
  INSTALL_DESTINATION "${package_folder}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/loftConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${PROJECT_BINARY_DIR}/loftConfig.cmake" "${PROJECT_BINARY_DIR}/loftConfigVersion.cmake"
  DESTINATION "${package_folder}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
