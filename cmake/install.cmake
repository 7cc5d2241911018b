# The files and places of `cmake --install`. The tree may be moved: dlflow finds its other programs beside itself, and these find their libraries and plug-ins in ../lib/dlflow.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME dlflow)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests and benches need not be built
set(documents ${CMAKE_INSTALL_DATAROOTDIR}/doc/dlflow)
set(own_data ${CMAKE_INSTALL_DATAROOTDIR}/dlflow)

set(installed)
set(with_libraries)
foreach(program dlflow dlflow-train dlflow-evaluate dlflow-predict)
  if(TARGET ${program})
    list(APPEND installed ${program})
    if(NOT program STREQUAL dlflow)  # which is static
      # RPATH instead of RUNPATH, since libraries also use it to find the libraries that they need.
      set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/dlflow")
      target_link_options(${program} PRIVATE LINKER:--disable-new-dtags)
      dlflow_for_other_systems(${program})
      list(APPEND with_libraries $<TARGET_FILE:${program}>)
    endif()
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
foreach(plugin dlflow_mpi_40 dlflow_mpi_12)
  if(TARGET ${plugin} AND TARGET dlflow-train)
    list(APPEND installed ${plugin})
    dlflow_for_other_systems(${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION lib/dlflow)
  endif()
endforeach()
# Libraries that clusters may lack: all that these programs need except those of glibc and of the site's MPI. They are a
# separate component, since Debian has packages of them.
if(with_libraries)
  install(CODE "set(programs \"${with_libraries}\")\nset(old_system \"${DLFLOW_OLD_SYSTEM}\")" COMPONENT libraries)
  install(SCRIPT cmake/shared_libraries.cmake COMPONENT libraries)
endif()
if(TARGET dlflow_cuda)
  list(APPEND installed dlflow_cuda)
  # A separate component, since no Debian package has the libraries that it needs.
  set_target_properties(dlflow_cuda PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/dlflow" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS dlflow_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT cuda)
endif()

set(described ${CMAKE_BINARY_DIR}/described)
add_custom_command(OUTPUT ${described}/done VERBATIM DEPENDS ${installed} ${CMAKE_CURRENT_LIST_DIR}/describe.cmake ${CMAKE_SOURCE_DIR}/docs/user/environment.md
  COMMAND ${CMAKE_COMMAND} -DDLFLOW=$<TARGET_FILE:dlflow> -DFOLDER=${described} -DOBJDUMP=${CMAKE_OBJDUMP}
          -P ${CMAKE_CURRENT_LIST_DIR}/describe.cmake)
add_custom_target(described ALL DEPENDS ${described}/done)
add_dependencies(programs described)
install(DIRECTORY ${described}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(FILES ${described}/completions/dlflow DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions)
install(FILES ${described}/completions/_dlflow DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
install(FILES ${described}/completions/dlflow.fish DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d)
install(DIRECTORY ${described}/schemas DESTINATION ${own_data})

install(DIRECTORY workflows DESTINATION ${own_data} FILES_MATCHING PATTERN "*.yaml" PATTERN "*.py" PATTERN images EXCLUDE PATTERN __pycache__ EXCLUDE)
install(DIRECTORY cluster-profiles DESTINATION ${own_data} FILES_MATCHING PATTERN "*.yaml" REGEX "(alpha|beta)\\.yaml" EXCLUDE)
install(FILES cmake/modulefile DESTINATION ${own_data}/modulefiles/dlflow RENAME ${PROJECT_VERSION})
install(FILES cmake/modulefile.lua DESTINATION ${own_data}/modulefiles/dlflow RENAME ${PROJECT_VERSION}.lua)
install(FILES README.md CHANGELOG.md LICENSE ${described}/LIBRARIES DESTINATION ${documents})
install(DIRECTORY docs DESTINATION ${documents} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")

dlflow_for_other_systems(dlflow_runtime)
# For programs in other languages. Python finds the library relative to its package, so their relative places are fixed.
install(TARGETS dlflow_runtime LIBRARY DESTINATION lib/dlflow)
install(FILES runtime/c_api/dlflow_runtime.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY python/dlflow DESTINATION lib/python3/dist-packages FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${python_about} DESTINATION lib/python3/dist-packages)

# Last, after all libraries: the licences of the libraries that are part of dlflow, in Debian's version.
foreach(library ${linked_libraries})
  install(FILES /usr/share/doc/${library}/copyright DESTINATION ${documents}/libraries RENAME ${library} OPTIONAL)
endforeach()
install(CODE "set(documents ${documents})\nset(linked_libraries ${linked_libraries})\nset(bill \"${DLFLOW_PYTHON};-B;${CMAKE_CURRENT_LIST_DIR}/bill_of_materials.py\")
              set(version ${PROJECT_VERSION})")
install(SCRIPT cmake/licences.cmake)
