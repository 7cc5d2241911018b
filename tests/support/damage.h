#pragma once

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace dlflow::test {

/// Flips one bit of a file in place, visible to processes that have it open.
inline void damage(const std::filesystem::path& file, uint64_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  char byte = 0;
  stream.seekg(std::streamoff(offset)).get(byte);
  byte = char(byte ^ 1);
  stream.seekp(std::streamoff(offset)).put(byte);
  DLFLOW_CHECK(stream.good());
}

}  // namespace dlflow::test
