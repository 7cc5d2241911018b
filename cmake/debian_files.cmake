# Run by CPack on the files of a package before they are packed: adds what Debian's policy requires beyond `cmake --install`.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
# CHANGELOG.md stays for people; this one has the format that Debian's tools read.
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)  # or that of SOURCE_DATE_EPOCH
file(WRITE ${share}/doc/dlflow/changelog
"dlflow (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; /usr/share/doc/dlflow/CHANGELOG.md says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(GLOB pages ${share}/man/man1/*.1)
execute_process(COMMAND gzip -9n ${pages} ${share}/doc/dlflow/changelog COMMAND_ERROR_IS_FATAL ANY)
find_program(STRIP strip REQUIRED)  # CPack strips the programs, but leaves this section
file(GLOB binaries ${CPACK_TEMPORARY_DIRECTORY}/usr/bin/* ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/dlflow/*.so)
execute_process(COMMAND ${STRIP} --remove-section=.comment ${binaries} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB common RELATIVE /usr/share/common-licenses /usr/share/common-licenses/*)  # Debian provides these
list(TRANSFORM common PREPEND ${share}/doc/dlflow/libraries/)
file(REMOVE ${share}/doc/dlflow/LICENSE ${common})
file(WRITE ${share}/doc/dlflow/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: dlflow

Files: *
Copyright: 2026 the dlflow authors
License: Apache-2.0
 On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.
Comment:
 Libraries that are part of these programs, and their licences, are in
 /usr/share/doc/dlflow/libraries.
")
file(MAKE_DIRECTORY ${share}/zsh/vendor-completions ${share}/lintian/overrides)
file(RENAME ${share}/zsh/site-functions/_dlflow ${share}/zsh/vendor-completions/_dlflow)
file(REMOVE_RECURSE ${share}/zsh/site-functions)
file(WRITE ${share}/lintian/overrides/dlflow
"# It is linked statically (static-pie): it runs on any Linux and in any container.
dlflow: shared-library-lacks-prerequisites [usr/bin/dlflow]
# All are to run where these libraries are missing or have other versions.
dlflow: embedded-library libjpeg [usr/bin/dlflow*]
dlflow: embedded-library libpng [usr/bin/dlflow*]
dlflow: embedded-library zlib [usr/bin/dlflow*]
# CPack calls it for each library below /usr/lib. These are in a folder that the linker does not search.
dlflow: maintscript-calls-ldconfig [post*]
")
if(CPACK_PACKAGE_CONTACT MATCHES "<>")
  file(APPEND ${share}/lintian/overrides/dlflow
"# The file ADDRESS gives no contact, since nobody has published this copy.
dlflow: bogus-mail-host-in-debian-changelog *
dlflow: malformed-contact *
")
endif()
