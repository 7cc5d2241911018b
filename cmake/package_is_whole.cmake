# Run by CPack on the files of a package before they are packed: licences and the bill of materials are there.
foreach(name dlflow.spdx.json GPL-2 GPL-3 LGPL-2.1 Apache-2.0 ${CPACK_DLFLOW_LIBRARIES})
  file(GLOB_RECURSE found LIST_DIRECTORIES false ${CPACK_TEMPORARY_DIRECTORY}/${name})
  if(NOT found)
    message(FATAL_ERROR "the package would lack share/doc/dlflow/libraries/${name}: install Debian's package, or build where python3 is")
  endif()
endforeach()
