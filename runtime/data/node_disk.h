#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/file_lock.h"

/// The files of dlflow on a node's own disk, for all jobs of a user there:
///
///   SCRATCH/dlflow-UID/         only this user's, mode 0700
///     registry                  a lock held for moments: by who comes, goes or clears up
///     NAME/                     a copy of data, or room for chunks
///     NAME.lock                 held by whoever uses NAME/; without a holder it is what a kill
///     left
///
/// How much is there is how long the files are: they get their full length at the start.
namespace dlflow::runtime {

struct NodeDisk {
  std::filesystem::path scratch;  ///< a folder that is there
  uint64_t budget_bytes = 0;      ///< of all that this user has there; 0: no limit
};

/// SCRATCH/dlflow-UID, made if need be, but not what it is in: a disk that is not there is not to
/// be made up. Throws Error, also if others may write there.
std::filesystem::path own_node_folder(const NodeDisk& disk);

/// NAME.lock.
std::filesystem::path node_lock_of(const std::filesystem::path& folder);

/// The lock `path`, or nothing if somebody else has it. Throws Error where there are no locks.
std::optional<FileLock> try_node_lock(const std::filesystem::path& path);

/// Waits for the registry of `root`, an own_node_folder().
FileLock lock_registry(const std::filesystem::path& root);

/// Removes what nobody uses, but for what has the lock `but_for`. Under the registry's lock.
void clear_up(const std::filesystem::path& root, const std::filesystem::path& but_for);

/// The bytes left of the budget. Under the registry's lock.
uint64_t room_within(const std::filesystem::path& root, uint64_t budget_bytes);

/// Throws Error{InvalidInput}: that `bytes` do not fit into what is left of the budget.
[[noreturn]] void throw_no_room(const std::filesystem::path& root, uint64_t bytes,
                                uint64_t budget_bytes);

/// A new file that takes the space for `bytes` at once, where the file system can do that. Throws
/// Error.
void make_file_of_length(const std::filesystem::path& path, uint64_t bytes);

}  // namespace dlflow::runtime
