#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// A fuzz target is one source file that defines these two functions. Linked with fuzz_main.cpp it
/// is a ctest test. With `clang++ -fsanitize=fuzzer,address` and without fuzz_main.cpp it runs
/// without limit.

/// Reads `size` bytes of untrusted data. Catches all expected exceptions; any other is a bug.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Returns good inputs, which fuzz_main.cpp changes at random.
std::vector<std::string> fuzz_seeds();
