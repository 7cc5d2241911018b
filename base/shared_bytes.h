#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace dlflow {

/// Bytes that stay where they are for as long as anybody has their owner.
struct SharedBytes {
  std::shared_ptr<const void> owner;
  std::string_view view;
};

SharedBytes shared_bytes(std::string text);

/// A file as memory, at least 4096-byte aligned. It is read where and when it is looked at, and
/// processes of a machine share what was read. Whoever shortens the file meanwhile ends us with
/// SIGBUS; replacing or removing it does no harm. Throws Error.
SharedBytes map_file(const std::filesystem::path& path);

}  // namespace dlflow
