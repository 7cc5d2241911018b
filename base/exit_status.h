#pragma once

namespace dlflow {

/// The exit status with which a step's program asks to be run again after it has saved its state
/// (EX_TEMPFAIL of sysexits.h).
constexpr int kExitAgain = 75;

}  // namespace dlflow
