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

/// The file or folder `name` in the open folder `above`. Throws Error for anything else: a link is
/// refused, wherever it leads, and so is a pipe.
FileDescriptor open_within(const FileDescriptor& above, const std::string& name);

/// Makes the folder `name` in the open folder `above`, which only this user may enter; nothing if
/// that name is taken. Throws Error, also if another user put something else there.
std::optional<FileDescriptor> make_folder(const FileDescriptor& above, const std::string& name);

/// A path of the opened entry, also if it was moved; valid while `opened` lives.
std::filesystem::path path_of(const FileDescriptor& opened);

/// The remaining budget; another user's folder may have any size.
struct TreeRoom {
  uint64_t bytes = 0;
  size_t entries = 1'000'000;
};

/// Copies everything below `from`, a folder of this user. Links that stay in it are kept, others
/// are replaced by their targets. Throws Error.
void copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);

/// Like copy_tree, of a folder that others may write to. Shared folders have no links that leave
/// them, so one that is there may lead to anything. Throws Error before it reads a file that has
/// more bytes than `room`, which is reduced.
void take_tree(const FileDescriptor& from, const std::filesystem::path& to, TreeRoom& room);

}  // namespace dlflow
