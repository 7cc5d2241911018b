# The Python package: build/python has the installed layout, so that PYTHONPATH=build/python finds it and its library.
set(python ${CMAKE_BINARY_DIR}/python)
set(python_about ${python}/dlflow-${PROJECT_VERSION}.dist-info)  # PyTorch looks for the backend there
file(MAKE_DIRECTORY ${python})
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/dlflow ${python}/dlflow SYMBOLIC)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/README.md)
file(READ README.md readme)
set(project_urls)
if(repository)
  set(project_urls "Project-URL: Repository, ${repository}\n")
endif()
configure_file(python/METADATA.in ${python_about}/METADATA @ONLY)
configure_file(python/entry_points.txt ${python_about}/entry_points.txt COPYONLY)

# A wheel, for `pip install` on a machine without dlflow: build/dlflow-VERSION-py3-none-manylinux_X_Y_MACHINE.whl. Its name contains the glibc version that it needs.
find_program(DLFLOW_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
if(DLFLOW_PYTHON AND TARGET dlflow_runtime AND TARGET dlflow)
  file(GLOB_RECURSE python_sources CONFIGURE_DEPENDS python/dlflow/*.py workflows/*.yaml workflows/*.py)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/wheel.stamp VERBATIM
    DEPENDS dlflow dlflow_runtime ${python_sources} python/make_wheel.py ${python_about}/METADATA ${python_about}/entry_points.txt
    COMMAND ${DLFLOW_PYTHON} -B ${CMAKE_SOURCE_DIR}/python/make_wheel.py ${CMAKE_BINARY_DIR} ${python_about} ${CMAKE_SOURCE_DIR}/LICENSE
            $<TARGET_FILE:dlflow_runtime> $<TARGET_FILE:dlflow> ${linked_libraries}
    COMMAND ${CMAKE_COMMAND} -E touch ${CMAKE_BINARY_DIR}/wheel.stamp)
  add_custom_target(wheel ALL DEPENDS ${CMAKE_BINARY_DIR}/wheel.stamp)
endif()
