#pragma once

namespace dlflow {

/// Of a step's program: "I have saved what I have; run me again" (EX_TEMPFAIL of sysexits.h).
constexpr int kExitAgain = 75;

}  // namespace dlflow
