#pragma once

#include "base/clock.h"
#include "engine/report/style.h"

namespace dlflow::test {

/// When the runs of these tests begin.
inline const Time kStart = from_rfc3339("2026-11-21T08:00:00.000Z");

/// A terminal without colours.
inline const Style kPlain{.color = false, .utf8 = true, .width = 80};

}  // namespace dlflow::test
