# Releases run on systems that are older than the one that builds them. DLFLOW_OLD_SYSTEM, which cmake/make_old_system makes, has an
# older glibc to link with, and builds of oneDNN and libgomp that need no newer one. Without it, what is built needs this machine's glibc.
set(DLFLOW_OLD_SYSTEM "" CACHE PATH "Folder that cmake/make_old_system has filled")
if(DLFLOW_OLD_SYSTEM)
  add_library(old_glibc OBJECT base/old_glibc.cpp)
  target_link_libraries(old_glibc PRIVATE dlflow_options)
  target_compile_options(old_glibc PRIVATE -fvisibility=hidden)
endif()

# dlflow_for_other_systems(TARGET): the compiler's libraries are part of it, and what it takes from glibc is old. Nobody sees the
# archives' symbols: a library that has a libstdc++ of its own would take half of this one.
function(dlflow_for_other_systems target)
  if(DLFLOW_SANITIZE)
    return()
  endif()
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc LINKER:--exclude-libs,ALL)
  if(DLFLOW_OLD_SYSTEM)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:old_glibc>)
    target_link_options(${target} PRIVATE --sysroot=${DLFLOW_OLD_SYSTEM} -B${DLFLOW_OLD_SYSTEM}/usr/lib/x86_64-linux-gnu/
                                          LINKER:--allow-shlib-undefined)  # the libraries that are linked are this machine's
    target_link_libraries(${target} PRIVATE -lpthread -ldl)
  endif()
endfunction()
