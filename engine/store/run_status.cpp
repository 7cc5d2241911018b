#include "engine/store/run_status.h"

#include <array>

#include "base/error.h"

namespace dlflow {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"running", "succeeded", "failed", "cancelled",
                                                    "interrupted"};

}  // namespace

std::string_view name(RunState state) { return kNames[size_t(state)]; }

RunState run_state(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return RunState(i);
  }
  throw Error(Errc::Corrupt, "'" + std::string(name) + "' is not the state of a run");
}

}  // namespace dlflow
