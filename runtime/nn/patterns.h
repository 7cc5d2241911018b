#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"

/// Layers and parameters that settings name by patterns, as fnmatch(3) has them: `*` is any text.
namespace dlflow::runtime {

bool matches_pattern(const std::string& name, const std::string& pattern);

/// Freezes the layers whose names fit one of `patterns`. Throws Error{InvalidInput} naming a
/// pattern that fits no layer with weights, and the nearest that does, or if no layer is left to
/// train.
void freeze_layers(Model& model, std::span<const std::string> patterns);

/// `patterns` are those of `groups`, of which the first that fits a parameter has it. Throws
/// Error{InvalidInput} naming the first that has no parameter that is trained.
void require_groups_fit(const Model& model, std::span<const std::string> patterns);

}  // namespace dlflow::runtime
