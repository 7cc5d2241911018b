#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/train/update_settings.h"

/// Layers and parameters that settings name by patterns, as fnmatch(3) has them: `*` is any text.
namespace dlflow::runtime {

bool matches_pattern(const std::string& name, const std::string& pattern);

/// Freezes the layers whose names fit one of `patterns`. Throws Error{InvalidInput} naming a
/// pattern that fits no layer with weights, or if no layer is left to train.
void freeze_layers(Model& model, std::span<const std::string> patterns);

/// Throws Error{InvalidInput} naming the first of `groups` whose pattern fits no parameter that is
/// trained.
void require_groups_fit(const Model& model, std::span<const ParameterGroup> groups);

}  // namespace dlflow::runtime
