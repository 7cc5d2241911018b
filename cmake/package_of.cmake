# Read by CPack once for each kind of package.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
  # Without the component `cuda`. The package includes oneDNN, since Debian 12 and 13 have different versions of it.
  set(CPACK_INSTALL_CMAKE_PROJECTS ${build} dlflow libraries / ${build} dlflow dlflow /)
endif()
