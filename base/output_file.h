#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/file.h"

/// Files for people and their programs: the umask alone decides who may read them. (Secrets and
/// dlflow's own records have mode 0600: write_file_atomic.)
namespace dlflow {

/// As write_file_atomic; but what is no regular file - a link, a pipe, a device - is written
/// through and stays. (Own records replace a link, since a program in a container may have put it
/// there.)
void write_output(const std::filesystem::path& path, std::string_view content,
                  Durability durability = Durability::Fast);

/// Whether nothing is at `path`, or a regular file: another file may take its place.
bool is_new_or_regular(const std::filesystem::path& path);

/// Creates `directory` and its parents. An existing directory is fine.
void make_output_folder(const std::filesystem::path& directory);

/// What write_file_atomic does, with another `mode` than 0600.
void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability, mode_t mode);

}  // namespace dlflow
