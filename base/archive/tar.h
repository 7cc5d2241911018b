#pragma once

#include "base/archive/archive_entries.h"
#include "base/archive/byte_source.h"

/// tar archives.
namespace dlflow {

/// Passes every entry of the archive to `entries`, and returns their number. Supports POSIX ustar,
/// pax headers (path, linkpath, size) and GNU long names; refuses sparse files with
/// Error{InvalidInput}. Throws Error{Corrupt} if a header is damaged or the archive ends too early,
/// and Error{InvalidInput} for more than `max_entries` (see max_unpacked_entries). Source:
/// POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block".
uint64_t read_tar(ByteSource& archive, ArchiveEntries& entries, uint64_t max_entries);

}  // namespace dlflow
