#pragma once

#include "base/archive/archive_entries.h"
#include "base/archive/byte_source.h"

/// tar archives.
namespace dlflow {

/// Hands every entry of the archive to `entries`: POSIX ustar, pax headers (path, linkpath, size)
/// and GNU long names. Refuses sparse files with Error{InvalidInput}; throws Error{Corrupt}
/// where a header is damaged or the archive ends too early.
/// Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block".
void read_tar(ByteSource& archive, ArchiveEntries& entries);

}  // namespace dlflow
