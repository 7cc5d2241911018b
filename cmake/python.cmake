# The Python package: in build/python as it is installed, so that PYTHONPATH=build/python finds it and its library.
set(python ${CMAKE_BINARY_DIR}/python)
set(python_about ${python}/dlflow-${PROJECT_VERSION}.dist-info)  # PyTorch looks for the backend there
file(MAKE_DIRECTORY ${python})
file(CREATE_LINK ${CMAKE_SOURCE_DIR}/python/dlflow ${python}/dlflow SYMBOLIC)
configure_file(python/METADATA.in ${python_about}/METADATA @ONLY)
configure_file(python/entry_points.txt ${python_about}/entry_points.txt COPYONLY)
