# Part of `cmake --install`: copies the libraries that `programs` need to lib/dlflow, under the names that the loader looks for.
# With `old_system` (old_system.cmake) they come from it. They need no newer libstdc++ than that of GCC 4.8, so the system's is used:
# a copy would also take precedence for other loaded libraries, such as an MPI in C++.
set(excluded "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so" "^libmpi\\.so")
if(old_system)
  list(APPEND excluded "^libstdc\\+\\+" "^libgcc_s" "^libOpenCL")
endif()
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} RESOLVED_DEPENDENCIES_VAR libraries PRE_EXCLUDE_REGEXES ${excluded})
foreach(library ${libraries})
  cmake_path(GET library FILENAME name)
  if(old_system)
    set(library ${old_system}/usr/lib/x86_64-linux-gnu/${name})
  endif()
  file(REAL_PATH ${library} content)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/dlflow TYPE FILE FILES ${content} RENAME ${name})
  # The licence of the library, under its name, in Debian's version.
  execute_process(COMMAND dpkg-query --search */${name} OUTPUT_VARIABLE owner ERROR_QUIET)
  string(REGEX MATCH "^[^:,]+" owner "${owner}")
  set(licence ${old_system}/usr/share/doc/${owner}/copyright)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/share/doc/dlflow/libraries TYPE FILE FILES ${licence} RENAME ${name} OPTIONAL)
endforeach()
