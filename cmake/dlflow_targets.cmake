# Functions that make targets, so that each folder's CMakeLists.txt only lists its files and the folders that it may include.

find_package(Threads REQUIRED)

add_library(dlflow_options INTERFACE)
target_include_directories(dlflow_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(dlflow_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                                                $<$<BOOL:${DLFLOW_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(dlflow_options INTERFACE -Wno-restrict)  # false alarms in std::string, GCC bug 105651
endif()
# Loops have GCC's own pragmas, and each page of the report is one long string.
target_compile_options(dlflow_options INTERFACE "$<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas;-Wno-overlength-strings>")
# If several sources are compiled as one, GCC treats their file-local names as if they came from a header.
target_compile_options(dlflow_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>)
# GCC's garbage collector takes 3 to 11 % of its time; without it, the largest source needs 1.5 GB.
target_compile_options(dlflow_options INTERFACE $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=2000000>)
configure_file(base/version.h.in ${CMAKE_BINARY_DIR}/generated/base/version.h @ONLY)
target_include_directories(dlflow_options INTERFACE ${CMAKE_BINARY_DIR}/generated)
if(DLFLOW_SANITIZE)
  # With sanitizers, GCC reports members of std::function as uninitialized.
  target_compile_options(dlflow_options INTERFACE -fsanitize=${DLFLOW_SANITIZE} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(dlflow_options INTERFACE -fsanitize=${DLFLOW_SANITIZE})
endif()

# For folders without hot loops: compiling takes three fifths of the time of -O2 with -Og, and three quarters with -O1 (used for planning). GCC then
# falsely reports a use of empty std::optionals.
set(DLFLOW_QUICK_BUILD $<$<CONFIG:Release>:-Og> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)

# dlflow_find_library(VARIABLE NAME [REQUIRED]): the file of a third-party library that becomes part of dlflow.
function(dlflow_find_library variable name)
  if(DLFLOW_STATIC)
    set(name lib${name}.a)
  endif()
  find_library(${variable} NAMES ${name} ${ARGN})
endfunction()

# dlflow_library(NAME [WITH other] SOURCES a.cpp ... LINKS other ...): a static library of one folder.
# LINKS are the folders to its right in docs/contributor/reference.md, and third-party libraries. WITH: a library of another folder; a
# unity build compiles both as one source, since headers take 3 s of each.
function(dlflow_library name)
  cmake_parse_arguments(ARG "" "WITH" "SOURCES;LINKS" ${ARGN})
  if(CMAKE_UNITY_BUILD AND TARGET "${ARG_WITH}")
    list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(${ARG_WITH} PRIVATE ${ARG_SOURCES})
    list(REMOVE_ITEM ARG_LINKS ${ARG_WITH})
    target_link_libraries(${ARG_WITH} PUBLIC ${ARG_LINKS})
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_WITH})
    return()
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC dlflow_options ${ARG_LINKS})
endfunction()

# dlflow_compile_options(NAME OPTION...): for a library's own sources. A library that is compiled with another one has that one's options.
function(dlflow_compile_options name)
  get_target_property(type ${name} TYPE)
  if(NOT type STREQUAL INTERFACE_LIBRARY)
    target_compile_options(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# dlflow_test(NAME [HOT] SOURCES ... [ALONE ...] LINKS ... LABELS ... [TIMEOUT SECONDS]): a Catch2 program, each of its cases a
# ctest test. ALONE are sources with a helper whose name another source uses as well; they are never compiled together with
# others. HOT: its own loops take long, so it is optimised; DLFLOW_TESTS_ARE_HOT sets this for all programs.
# A case that prints "skipped here: REASON" (tests/support/skip.h) is reported as skipped.
function(dlflow_test name)
  cmake_parse_arguments(ARG "HOT" "TIMEOUT" "SOURCES;ALONE;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(DLFLOW_TESTS_ARE_HOT)
    set(ARG_HOT ON)
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_ALONE})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${name} PROPERTIES UNITY_BUILD "$CACHE{CMAKE_UNITY_BUILD}" UNITY_BUILD_BATCH_SIZE 16)
  target_link_libraries(${name} PRIVATE test_support ${ARG_LINKS})
  # Catch2 is slow to optimise: -O1 takes 1.6 times as long as -O0, -O2 half as long again.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:$<IF:$<BOOL:${ARG_HOT}>,-O1,-O0>>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  string(REPLACE ";" "+" labels "${ARG_LABELS}")  # Catch2's script would treat a second label as a property; -L is a pattern
  if(Catch2_VERSION VERSION_LESS 3)  # Catch2 3 does so by default
    set(fail_without_tests --warn NoTests)  # otherwise a name that CMake splits, such as one with a semicolon, would pass without running a test
  endif()
  catch_discover_tests(${name} TEST_PREFIX "${name}: " EXTRA_ARGS ${fail_without_tests} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT}
                       SKIP_REGULAR_EXPRESSION "skipped here: ")
endfunction()

# dlflow_test_on_older_processors(NAME TAGS): runs the cases of a dlflow_test() with these tags again with oneDNN limited to AVX2 and to
# SSE4.1, where images and weights have other formats and most kernels differ. oneDNN 3 has no SSE4.1 kernel for many sizes, so
# networks with such layers are refused there.
function(dlflow_test_on_older_processors name tags)
  file(STRINGS ${DNNL_INCLUDE}/oneapi/dnnl/dnnl_version.h is_3 REGEX "define DNNL_VERSION_MAJOR 3")
  foreach(processor AVX2 SSE41)
    if(is_3 AND processor STREQUAL SSE41)
      message(STATUS "oneDNN 3: no ${name} on SSE4.1")
      continue()
    endif()
    catch_discover_tests(${name} TEST_SPEC "${tags}" TEST_PREFIX "${name} on ${processor}: " EXTRA_ARGS --name ${processor}
                         PROPERTIES ENVIRONMENT ONEDNN_MAX_CPU_ISA=${processor} LABELS unit TIMEOUT 120
                         SKIP_REGULAR_EXPRESSION "skipped here: ")
  endforeach()
endfunction()

# dlflow_pytorch_test(NAME PROGRAM SCRIPT VARIABLE CASE): runs a case of PROGRAM again, with values that SCRIPT computes with this
# machine's PyTorch in the file named by VARIABLE. Skipped without PyTorch.
function(dlflow_pytorch_test name program script variable case)
  find_program(DLFLOW_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(NOT DLFLOW_PYTHON)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/support/against_pytorch
           ${DLFLOW_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${variable} $<TARGET_FILE:${program}> ${case})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS unit)
endfunction()

# dlflow_same_bits(TARGET): all versions that DLFLOW_VECTOR_CLONES makes of its sources compute the same bits.
function(dlflow_same_bits target)
  dlflow_compile_options(${target} -ffp-contract=off)
endfunction()
