# Run by CPack on the files of a package before they are packed: what Debian's policy asks for beside `cmake --install`.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
file(RENAME ${share}/doc/dlflow/CHANGELOG.md ${share}/doc/dlflow/changelog)
file(GLOB pages ${share}/man/man1/*.1)
execute_process(COMMAND gzip -9n ${pages} ${share}/doc/dlflow/changelog COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${share}/doc/dlflow/LICENSE)
file(WRITE ${share}/doc/dlflow/copyright
"Copyright: the dlflow authors
License: Apache-2.0; its text is in /usr/share/common-licenses/Apache-2.0.

Libraries that are part of these programs, and their licences, are in
/usr/share/doc/dlflow/libraries.
")
file(MAKE_DIRECTORY ${share}/zsh/vendor-completions ${share}/lintian/overrides)
file(RENAME ${share}/zsh/site-functions/_dlflow ${share}/zsh/vendor-completions/_dlflow)
file(REMOVE_RECURSE ${share}/zsh/site-functions)
file(WRITE ${share}/lintian/overrides/dlflow
"# It runs on any Linux and in any container.
dlflow: statically-linked-binary [usr/bin/dlflow]
")
