#pragma once

#include <optional>

#include "base/json.h"
#include "engine/cli/data_check.h"
#include "engine/model/step_kinds.h"

namespace dlflow {

/// The first setting of a training that does not go with the others, or has a value that no schema
/// can exclude: what its job would say. Nothing if there is none, or if a setting is known in a run
/// alone. \param with  of one element, as far as it is known
std::optional<DataMistake> mistake_in_settings(const StepKind& kind, const Json& with);

}  // namespace dlflow
