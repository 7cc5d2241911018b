#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/handle.h"

/// Files: whole reads, atomic writes, and durable appends. Every function throws Error with the
/// path and the system's reason.
namespace dlflow {

/// The whole file. Throws Error{InvalidInput} if it is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = UINT64_MAX);

/// Like read_file, but returns nothing if there is no such file.
std::optional<std::string> read_file_if_exists(const std::filesystem::path& path);

/// Like read_file_if_exists, for a file that only its owner, the caller, may read or write. If
/// others may, throws Error{InvalidInput} with the command that corrects it.
std::optional<std::string> read_private_file(const std::filesystem::path& path);

enum class Durability { Fast, Synced };

/// Replaces `path` by `content`: a reader sees the old file or the new one, never a part. With
/// Synced, it survives a power cut once the call returns. Mode 0600 unless the umask is stricter.
void write_file_atomic(const std::filesystem::path& path, std::string_view content,
                       Durability durability = Durability::Fast);

/// Like write_file_atomic, without a rename and at less cost: for a file that nobody reads before
/// another file refers to it. Removes an existing file first, so that a link is not followed, and a
/// process that has it open keeps its content.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Opens `path`; child processes do not inherit it. Throws Error naming `path` and, if there is no
/// folder for a new file, that folder.
FileDescriptor open_or_throw(const std::filesystem::path& path, int flags, mode_t mode = 0600);

/// Closes a written file; network file systems report a full disk only then. Throws Error naming
/// `path`.
void close_or_throw(FileDescriptor file, const std::filesystem::path& path);

/// Makes a rename or a new file in `directory` survive a power cut.
void sync_directory(const std::filesystem::path& directory);

/// Makes `folder` and its content survive a power cut, except targets of links and files that the
/// caller may not read. An empty or missing folder costs nothing, a large one at most a sync of its
/// file system. Returns false if it is empty or missing.
bool sync_tree(const std::filesystem::path& folder);

/// Creates `directory` and its parents, mode 0700. An existing directory is fine.
void make_directories(const std::filesystem::path& directory);

/// The part of a shared folder that only this user may change: user-UID below it; the folder itself
/// if it is not shared or does not exist. Creates nothing. Throws Error{InvalidInput} if another
/// user created user-UID, or may enter it.
std::filesystem::path private_part(const std::filesystem::path& folder);

/// Throws Error{InvalidInput} unless `directory` is a real folder (not a link) of this user that
/// nobody else may enter.
void require_private(const std::filesystem::path& directory);

/// Creates `directory`, mode 0700, unless it exists. Throws like require_private.
void make_private_directory(const std::filesystem::path& directory);

/// Copies the content and the mode of `from` to `to`, replacing it. If the file system can, both
/// share their blocks until one is changed. (std's copy reports a full disk as an input/output
/// error.)
void copy_content(const std::filesystem::path& from, const std::filesystem::path& to);

/// Returns the bytes of `file`, or 0 if it cannot be found or read.
uint64_t size_or_zero(const std::filesystem::path& file);

/// Reads some bytes of `path` from a descriptor; returns their number, 0 at the end.
size_t read_some(int descriptor, std::span<char> buffer, const std::filesystem::path& path);

/// Writes all of `bytes` to a descriptor; `path` is for the error message only.
void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path);

/// A file that only grows, line by line. Each append is one write(), so that a reader sees whole
/// lines, except perhaps the last one after a crash. A line without its newline counts as not
/// written: the next append marks it, so that it is not JSON even if only the newline was missing.
/// There must be only one writer at a time.
class AppendFile {
 public:
  explicit AppendFile(const std::filesystem::path& path);

  /// Appends `line` and a newline. First marks and ends a torn line that a crash or a full disk
  /// left.
  void append(std::string_view line);

  /// Returns once everything appended would survive a power cut.
  void sync();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  bool torn_ = false;  // the last line has no newline
};

}  // namespace dlflow
