#pragma once

#include <cstdint>
#include <filesystem>

#include "base/handle.h"

/// Folders on their way into a shared cache and out of it: always copies, which share their blocks
/// where the file system can.
namespace dlflow {

/// How much may still be taken; another user's folder may claim any size.
struct TreeRoom {
  uint64_t bytes = 0;
  size_t entries = 1'000'000;
};

/// Copies what is below `from`, a folder of this user. Links that stay in it are kept, others are
/// entered. Throws Error.
void copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);

/// As copy_tree, of a folder that others may write to. What is shared has no links that leave it,
/// so one that is there may lead to anything. Throws Error, before a file is read that has more
/// bytes than `room`, which gets smaller.
void take_tree(const FileDescriptor& from, const std::filesystem::path& to, TreeRoom& room);

}  // namespace dlflow
