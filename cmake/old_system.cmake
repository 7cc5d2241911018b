# Releases run on systems older than the one that builds them. DLFLOW_OLD_SYSTEM, made by cmake/make_old_system, has an older
# glibc to link with, and builds of oneDNN and libgomp that need no newer one. Without it, the programs need this machine's glibc.
set(DLFLOW_OLD_SYSTEM "" CACHE PATH "Folder that cmake/make_old_system has filled")
if(DLFLOW_OLD_SYSTEM)
  add_library(old_glibc OBJECT base/old_glibc.cpp)
  target_link_libraries(old_glibc PRIVATE dlflow_options)
  target_compile_options(old_glibc PRIVATE -fvisibility=hidden)
endif()

# dlflow_for_other_systems(TARGET): links the compiler's libraries statically, and uses only old functions of glibc. The archives'
# symbols are hidden: a library with its own libstdc++ would otherwise use parts of this one.
function(dlflow_for_other_systems target)
  if(DLFLOW_SANITIZE)
    return()
  endif()
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  if(DLFLOW_OLD_SYSTEM)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:old_glibc>)
    target_link_options(${target} PRIVATE --sysroot=${DLFLOW_OLD_SYSTEM} -B${DLFLOW_OLD_SYSTEM}/usr/lib/x86_64-linux-gnu/
                                          LINKER:--allow-shlib-undefined)  # the linked libraries are those of this machine
    target_link_libraries(${target} PRIVATE -lpthread -ldl)
  endif()
endfunction()
