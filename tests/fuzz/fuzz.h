#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// A fuzz target: one source file that defines these two. Linked with fuzz_main.cpp it is a ctest
/// test; with `clang++ -fsanitize=fuzzer,address` and without fuzz_main.cpp it runs for as long as
/// one likes.

/// Reads `size` bytes of anybody's data. What it may throw it catches; anything else is a bug.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Good inputs, which fuzz_main.cpp changes at random.
std::vector<std::string> fuzz_seeds();
