#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dlflow::runtime {

/// When checkpoints are saved, in addition to the last step and on request.
struct CheckpointPolicy {
  enum class Unit { Epochs, Steps, Seconds };
  Unit unit = Unit::Epochs;
  uint64_t every = 1;
  size_t keep = 2;
  bool operator==(const CheckpointPolicy&) const = default;
};

/// Reads $DLFLOW_CHECKPOINT_EVERY ("200 steps") and $DLFLOW_CHECKPOINT_KEEP; empty is the default.
/// Throws Error{InvalidInput} naming the variable.
CheckpointPolicy parse_checkpoint_policy(const std::string& every, const std::string& keep);

}  // namespace dlflow::runtime
