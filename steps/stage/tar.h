#pragma once

#include "steps/stage/byte_source.h"
#include "steps/stage/unpacking.h"

/// tar archives.
namespace dlflow::steps {

/// Hands every entry of the archive to `unpacking`: POSIX ustar, pax headers (path, linkpath, size)
/// and GNU long names. Refuses devices, pipes and sparse files with Error{InvalidInput}; throws
/// Error{Corrupt} where a header is damaged or the archive ends too early.
/// Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block".
void read_tar(ByteSource& archive, Unpacking& unpacking);

}  // namespace dlflow::steps
