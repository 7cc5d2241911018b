#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dlflow {

/// Bytes that stay in place while `owner` exists.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::string_view view;
};

SharedBytes shared_bytes(std::string text);

/// Maps a file into memory, at least 4096-byte aligned. Pages are read on access, and processes of
/// a machine share them. If another process shortens the file meanwhile, SIGBUS ends this one;
/// replacing or removing it is harmless. Throws Error.
SharedBytes map_file(const std::filesystem::path& path);

}  // namespace dlflow
