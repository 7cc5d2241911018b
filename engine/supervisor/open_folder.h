#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/handle.h"

/// Folders that others may write to. Whoever may rename what is in one can put a link to another
/// place where a folder was a moment ago. So each is opened once, never through a link, and what is
/// in it is reached through what was opened.
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

}  // namespace dlflow
