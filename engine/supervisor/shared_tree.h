#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/handle.h"

/// Folders on their way into a shared cache and out of it: always copies, which share their blocks
/// where the file system can.
///
/// Others may write to a shared cache. Whoever may rename what is in a folder can put a link to
/// another place where a folder was a moment ago. So each is opened once, never through a link, and
/// what is in it is reached through what was opened.
namespace dlflow {

/// The folder at `path`, which nobody else may replace; links are followed. Throws Error.
FileDescriptor open_folder(const std::filesystem::path& path);

/// The file or folder `name` in the open folder `above`. Throws Error if it is neither: a link is
/// refused, wherever it leads, and so is a pipe.
FileDescriptor open_within(const FileDescriptor& above, const std::string& name);

/// Makes the folder `name` in the open folder `above`, of this user and for nobody else; nothing if
/// that name is taken. Throws Error, also if another user put something else there.
std::optional<FileDescriptor> make_folder(const FileDescriptor& above, const std::string& name);

/// A path of what was opened, wherever it is by now; good while `opened` lives.
std::filesystem::path path_of(const FileDescriptor& opened);

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
