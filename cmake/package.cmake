# `./dev package`: a tarball that runs wherever it is unpacked, and a Debian package if dpkg is installed.
set(CPACK_PACKAGE_NAME dlflow)
set(CPACK_PACKAGE_VENDOR "The dlflow authors")
set(CPACK_PACKAGE_CONTACT "The dlflow authors <${contact}>")
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE "${repository}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "workflow engine for deep-learning pipelines on HPC clusters")
set(CPACK_PACKAGE_DESCRIPTION
"One YAML file describes staging, training, checkpointing and evaluation.
dlflow plans it, runs it on this machine or as a chain of jobs of SLURM or
Grid Engine, and repairs it after a failure. Training is data-parallel over
MPI. Results that are known are reused. It needs no daemon and no
administrator.")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR})
set(CPACK_STRIP_FILES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_of.cmake)
set(CPACK_DLFLOW_LIBRARIES ${linked_libraries})
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_is_whole.cmake ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)

set(CPACK_GENERATOR TGZ)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_SYSTEM_NAME ${system}-${CMAKE_SYSTEM_PROCESSOR})  # dlflow-0.9.0-linux-x86_64.tar.gz

find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(DPKG_SHLIBDEPS)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)  # dlflow_0.9.0_amd64.deb
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/postinst ${CMAKE_CURRENT_LIST_DIR}/debian/prerm)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3:any")  # for the package dlflow.torch; shared libraries are added
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "curl, openmpi-bin | mpich")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "dataset-fashion-mnist, git, graphviz, podman, python3-torch, rclone, rsync, slurm-client")
include(CPack)
