#pragma once

#include <atomic>
#include <cstdint>

/// Counts the bytes that this program hashes: for tests with hashed_bytes.cpp that are linked with
/// -Wl,--wrap=SHA256_Update.
namespace dlflow::test {

inline std::atomic<uint64_t> num_hashed_bytes = 0;

/// The number of bytes that `work` hashes, on all threads.
template <typename Work>
uint64_t hashed_by(Work work) {
  const uint64_t before = num_hashed_bytes;
  work();
  return num_hashed_bytes - before;
}

}  // namespace dlflow::test
