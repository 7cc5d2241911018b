# Part of `cmake --install`: copies of the libraries that `programs` need lie in lib/dlflow, under the names that the loader looks for.
set(excluded "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so" "^libmpi\\.so")
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} RESOLVED_DEPENDENCIES_VAR libraries PRE_EXCLUDE_REGEXES ${excluded})
foreach(library ${libraries})
  cmake_path(GET library FILENAME name)
  file(REAL_PATH ${library} content)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/dlflow TYPE FILE FILES ${content} RENAME ${name})
endforeach()
