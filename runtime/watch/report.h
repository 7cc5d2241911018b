#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/call_log.h"

/// Messages of the side channel about ranks and their calls.
namespace dlflow::runtime {

/// A rank and its calls.
struct RankCalls {
  int rank = 0;
  CallLog::Recent calls;
};

/// Returns "rank 3 (node b2)" or "ranks 0-2, 5". `ranks` ascend; `nodes` is indexed by rank.
std::string name_of(const std::vector<int>& ranks, const std::vector<std::string>& nodes);

/// Describes the first call that is not the same on all ranks: "call 812 is not the same on all
/// ranks: rank 3 (node b2) all-reduce 'fc.weight' of 100 fp32; ranks 0-2 all-reduce 'fc.bias' of 10
/// fp32; ...". Empty if that call is forgotten.
std::string describe_difference(const std::vector<RankCalls>& ranks,
                                const std::vector<std::string>& nodes);

/// Returns "rank 3 (node b2) died: killed, crashed, or its node went down".
std::string describe_loss(const std::string& ranks);

/// "rank 3 (node b2): silent for 60 s; its process is stopped, or its node cannot be reached".
std::string describe_silence(const std::string& ranks, std::chrono::milliseconds time);

/// Returns "60 s".
std::string seconds_of(std::chrono::milliseconds time);

}  // namespace dlflow::runtime
