#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/settings/train_settings.h"

/// The settings that decide what is learnt: a resumed run must keep them. Settings of the execution
/// (ranks, batch, reduction, compression, location of the data) may change; TrainingState reports
/// the effect on the bits.
namespace dlflow::runtime {

/// Returns a flat object of the settings by their keys in `with:`, with defaults filled in. Seed
/// and kind of optimizer are missing: TrainingState has them.
Json settings_kept(const TrainSettings& settings);

/// Returns "lr 0.1, not 0.2" for each key of `saved` whose value differs in `now` or is missing
/// there. Keys that `saved` lacks are newer than the checkpoint, and ignored.
std::vector<std::string> changed_settings(const Json& saved, const Json& now);

}  // namespace dlflow::runtime
