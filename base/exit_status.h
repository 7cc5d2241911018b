#pragma once

namespace dlflow {

/// The exit status by which a step's program reports "saved, run me again" (EX_TEMPFAIL of
/// sysexits.h).
constexpr int kExitAgain = 75;

}  // namespace dlflow
