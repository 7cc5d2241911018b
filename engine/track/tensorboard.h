#pragma once

#include <string>

#include "base/clock.h"
#include "engine/report/curves.h"

/// TensorBoard's event files.
namespace dlflow {

/// The event file of one job: a scalar for each number that it reported, in the order of its lines.
/// More lines only append to it, so that a reader can follow. Points without a time get `began`.
///
/// Each record holds its length, a checksum of the length, the event, and a checksum of the event.
/// The checksums are CRC-32C, rotated and offset, since data may itself contain checksums.
/// Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto and
/// tensorflow/core/framework/summary.proto.
std::string tensorboard_events(const Reported& reported, Time began);

/// Seconds since 1970, the unit of trackers.
inline double unix_seconds(Time time) { return double(to_ms(time)) / 1000; }

/// CRC-32C (Castagnoli) of `bytes`.
uint32_t crc32c(std::string_view bytes);

}  // namespace dlflow
