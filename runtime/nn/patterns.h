#pragma once

#include <span>
#include <string>

#include "runtime/nn/model.h"

/// Settings select layers and parameters by patterns, as in fnmatch(3): `*` matches any text.
namespace dlflow::runtime {

bool matches_pattern(const std::string& name, const std::string& pattern);

/// Freezes the layers whose names match one of `patterns`. Throws Error{InvalidInput} if a pattern
/// matches no layer with weights, naming it and the nearest that does, or if no layer is left to
/// train.
void freeze_layers(Model& model, std::span<const std::string> patterns);

/// Checks the patterns of `groups`; each parameter belongs to the first that matches it. Throws
/// Error{InvalidInput} naming the first pattern without a trained parameter.
void require_groups_fit(const Model& model, std::span<const std::string> patterns);

}  // namespace dlflow::runtime
