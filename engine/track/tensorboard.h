#pragma once

#include <string>

#include "base/clock.h"
#include "engine/report/curves.h"

/// TensorBoard's event files.
namespace dlflow {

/// The file of one job: each number that it reported as a scalar, in the order of its lines. A pure
/// function of those, and what more lines add stands at the end: a reader that follows the file
/// finds it there. Points whose time is not known are given `began`.
///
/// Each record is its length, a checksum of that, the event, and a checksum of it; the checksums
/// are CRC-32C, rotated and shifted, so that one of bytes that hold checksums is a good one, too.
/// Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto and
/// tensorflow/core/framework/summary.proto.
std::string tensorboard_events(const Reported& reported, Time began);

/// As trackers have times: since 1970.
inline double unix_seconds(Time time) { return double(to_ms(time)) / 1000; }

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace dlflow
