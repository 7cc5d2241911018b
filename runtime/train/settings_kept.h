#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/settings/train_settings.h"

/// The settings that say what is learnt: a run that goes on from a checkpoint must keep them.
/// How it is computed (ranks, batch, reduction, compression, where the data is read from) may
/// change: TrainingState names what that does to the bits.
namespace dlflow::runtime {

/// By their keys in `with:`, with defaults filled in; a flat object. Seed and kind of optimizer are
/// not among them: TrainingState has them.
Json settings_kept(const TrainSettings& settings);

/// "lr 0.1, not 0.2" for each key whose value in `saved` is not that in `now`, and for those that
/// only `saved` has. A key that `saved` lacks was not known when it was saved: nothing is said.
std::vector<std::string> changed_settings(const Json& saved, const Json& now);

}  // namespace dlflow::runtime
