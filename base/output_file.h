#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/file.h"

/// Files for people and their programs: only the umask limits who may read them. (Secrets and
/// dlflow's own records have mode 0600: write_file_atomic.)
namespace dlflow {

/// Like write_file_atomic, but keeps a link, a pipe or a device and writes through it. (dlflow's
/// own records replace a link, since a program in a container may have put it there.)
void write_output(const std::filesystem::path& path, std::string_view content,
                  Durability durability = Durability::Fast);

/// Whether `path` does not exist or is a regular file, so that another file may replace it.
bool is_new_or_regular(const std::filesystem::path& path);

/// Creates `directory` and its parents. An existing directory is fine.
void make_output_folder(const std::filesystem::path& directory);

/// Like write_file_atomic, with the given `mode` instead of 0600.
void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability, mode_t mode);

}  // namespace dlflow
