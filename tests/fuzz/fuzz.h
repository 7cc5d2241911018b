#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// A fuzz target is one source file that defines these two functions. Linked with fuzz_main.cpp it
/// is a ctest test; with `clang++ -fsanitize=fuzzer,address` and without fuzz_main.cpp it runs
/// until it is stopped.

/// Reads `size` bytes of untrusted data, and catches the expected exceptions; anything else is a
/// bug.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Valid inputs, which fuzz_main.cpp changes at random.
std::vector<std::string> fuzz_seeds();
