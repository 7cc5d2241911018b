#pragma once

#include <cstdint>
#include <string>

#include "runtime/nn/model.h"

/// Networks of tokens, computed for fewer positions than they have.
namespace dlflow::runtime {

/// Why padding after the end of a text, or its length, would change the result of the text: "layer
/// 'a' (attention) looks at the positions behind, with 'causal: false'". Empty if it would not. If
/// texts have a class, attention and `mean_pool` only see the tokens whose number is given to
/// Network::forward().
std::string reason_against_padding(const Model& model);

/// The same network for the first `length` positions, with the same parameters. `model` must read
/// tokens and have no reason_against_padding().
Model with_length(Model model, int64_t length);

}  // namespace dlflow::runtime
