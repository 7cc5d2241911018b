#pragma once

#include <cstdint>
#include <string>

#include "runtime/nn/model.h"

/// Networks of tokens that are computed for fewer positions than they have.
namespace dlflow::runtime {

/// The reason why what stands behind the end of a text would change its result, or how much stands
/// there: "layer 'a' (attention) looks at the positions behind, with 'causal: false'". Empty if
/// there is none. Where texts have a class, attention and `mean_pool` look at the tokens of a text
/// alone, as Network::forward() is told how many there are.
std::string reason_against_padding(const Model& model);

/// The same network for the first `length` positions, with the same parameters. `model` reads
/// tokens, and there is no reason against padding.
Model with_length(Model model, int64_t length);

}  // namespace dlflow::runtime
