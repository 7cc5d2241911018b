# Read by CPack once for each kind of package.
if(CPACK_GENERATOR STREQUAL DEB)
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
  # Without the component `cuda`. Debian 12 and 13 have other versions of oneDNN, so it is brought along.
  set(CPACK_INSTALL_CMAKE_PROJECTS ${build} dlflow libraries / ${build} dlflow dlflow /)
endif()
