# How targets are made here, so that each folder's CMakeLists.txt is a list of files and of what it may include.

find_package(Threads REQUIRED)

add_library(dlflow_options INTERFACE)
target_include_directories(dlflow_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(dlflow_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                                                $<$<BOOL:${DLFLOW_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(dlflow_options INTERFACE -Wno-restrict)  # false alarms in std::string, GCC bug 105651
endif()
# GCC's own pragmas, for loops; pages of the report, which are one text each.
target_compile_options(dlflow_options INTERFACE "$<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas;-Wno-overlength-strings>")
# What is file-local in one of several sources that are compiled as one looks to GCC as if a header had it.
target_compile_options(dlflow_options INTERFACE
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>:-Wno-subobject-linkage>)
# GCC's garbage collector takes 3 to 11 % of its time; without it, the largest source needs 1.5 GB.
target_compile_options(dlflow_options INTERFACE $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=2000000>)
configure_file(base/version.h.in ${CMAKE_BINARY_DIR}/generated/base/version.h @ONLY)
target_include_directories(dlflow_options INTERFACE ${CMAKE_BINARY_DIR}/generated)
if(DLFLOW_SANITIZE)
  # With sanitizers, GCC takes members of the standard library's std::function for uninitialized.
  target_compile_options(dlflow_options INTERFACE -fsanitize=${DLFLOW_SANITIZE} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(dlflow_options INTERFACE -fsanitize=${DLFLOW_SANITIZE})
endif()

# Of folders where no loop is hot: -Og takes three fifths of the time of -O2, -O1 (where planning computes) three quarters. There GCC takes an
# empty std::optional for one that is used.
set(DLFLOW_QUICK_BUILD $<$<CONFIG:Release>:-Og> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)

# dlflow_find_library(VARIABLE NAME [REQUIRED]): the file of a third-party library that becomes part of dlflow.
function(dlflow_find_library variable name)
  if(DLFLOW_STATIC)
    set(name lib${name}.a)
  endif()
  find_library(${variable} NAMES ${name} ${ARGN})
endfunction()

# dlflow_library(NAME SOURCES a.cpp ... LINKS other ...): a static library of one folder.
# LINKS are the folders to its right in docs/contributor/reference.md, and third-party libraries.
function(dlflow_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC dlflow_options ${ARG_LINKS})
endfunction()

# dlflow_test(NAME [HOT] SOURCES ... [ALONE ...] LINKS ... LABELS ... [TIMEOUT SECONDS]): a Catch2 program, each of its cases a
# ctest test. ALONE are sources, too: those with a helper that is named like one of another source. They are never compiled
# together with others. HOT: its own loops take long, as those of all programs do where DLFLOW_TESTS_ARE_HOT is set.
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
  string(REPLACE ";" "+" labels "${ARG_LABELS}")  # Catch2's script takes a second one for a property; -L is a pattern
  if(Catch2_VERSION VERSION_LESS 3)  # Catch2 3 does so by default
    set(fail_without_tests --warn NoTests)  # a name that CMake takes apart, as one with a semicolon, would pass without a test
  endif()
  catch_discover_tests(${name} TEST_PREFIX "${name}: " EXTRA_ARGS ${fail_without_tests} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT}
                       SKIP_REGULAR_EXPRESSION "skipped here: ")
endfunction()

# dlflow_test_on_older_processors(NAME): all cases of a dlflow_test() once more where oneDNN may use no more than AVX2 or
# SSE4.1: images and weights have other formats there, and most kernels are others.
function(dlflow_test_on_older_processors name)
  foreach(processor AVX2 SSE41)
    catch_discover_tests(${name} TEST_PREFIX "${name} on ${processor}: " EXTRA_ARGS --name ${processor}
                         PROPERTIES ENVIRONMENT ONEDNN_MAX_CPU_ISA=${processor} LABELS unit TIMEOUT 120
                         SKIP_REGULAR_EXPRESSION "skipped here: ")
  endforeach()
endfunction()

# dlflow_pytorch_test(NAME PROGRAM SCRIPT VARIABLE CASE): runs a case of PROGRAM again, with what SCRIPT has this machine's
# PyTorch compute now in the file that VARIABLE names. Skipped without PyTorch.
function(dlflow_pytorch_test name program script variable case)
  find_program(DLFLOW_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(NOT DLFLOW_PYTHON)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/support/against_pytorch
           ${DLFLOW_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${variable} $<TARGET_FILE:${program}> ${case})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 120 LABELS unit)
endfunction()

# dlflow_same_bits(a.cpp ...): every version that DLFLOW_VECTOR_CLONES makes of these sources computes the same bits.
function(dlflow_same_bits)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
endfunction()
