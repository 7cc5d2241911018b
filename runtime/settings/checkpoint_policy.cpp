#include "runtime/settings/checkpoint_policy.h"

#include "base/error.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

uint64_t parse_count(const std::string& text, const char* variable) {
  const auto value = number_from<uint64_t>(text);
  if (value && *value > 0) return *value;
  throw Error(Errc::InvalidInput,
              std::string("$") + variable + ": '" + text + "' is not a whole number of at least 1");
}

}  // namespace

CheckpointPolicy parse_checkpoint_policy(const std::string& every, const std::string& keep) {
  CheckpointPolicy policy;
  if (!keep.empty()) policy.keep = parse_count(keep, "DLFLOW_CHECKPOINT_KEEP");
  if (every.empty()) return policy;
  const size_t space = every.find(' ');
  policy.every = parse_count(every.substr(0, space), "DLFLOW_CHECKPOINT_EVERY");
  const std::string unit = space == std::string::npos ? "" : every.substr(space + 1);
  if (unit == "epochs") {
    policy.unit = CheckpointPolicy::Unit::Epochs;
  } else if (unit == "steps") {
    policy.unit = CheckpointPolicy::Unit::Steps;
  } else if (unit == "seconds") {
    policy.unit = CheckpointPolicy::Unit::Seconds;
  } else {
    throw Error(Errc::InvalidInput, "$DLFLOW_CHECKPOINT_EVERY: '" + every +
                                        "' is not like '1 epochs', '200 steps' or '1800 seconds'");
  }
  return policy;
}

}  // namespace dlflow::runtime
