#pragma once

#include <cstdint>

#include "base/clock.h"

/// Times as trackers have them: since 1970.
namespace dlflow {

inline double unix_seconds(Time time) { return double(time.time_since_epoch().count()) / 1000; }
inline int64_t unix_milliseconds(Time time) { return time.time_since_epoch().count(); }

}  // namespace dlflow
