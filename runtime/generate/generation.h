#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/generate/sampling.h"
#include "runtime/generate/token_network.h"

namespace dlflow::runtime {

struct GenerationOptions {
  size_t max_tokens = 200;  ///< behind the prompt
  Sampling sampling;
  uint64_t seed = 0;
  uint32_t end_of_text = 0;  ///< ends a sample, and begins one without a prompt
  size_t vocabulary = 0;     ///< tokens that have a text; others are not chosen
};

/// A text that a network has written, without the prompt.
struct GeneratedText {
  std::vector<uint32_t> tokens;  ///< without the one that ends it
  bool ended = false;            ///< by the network, before max_tokens
};

/// Text number `sample`, that follows `prompt`: the same for the same weights, options and number.
/// When the network has no place left, it goes on with the last half of the places, as if the text
/// began there. Throws Error{InvalidInput} if the prompt has a token that the network does not
/// know, or its scores are no numbers.
GeneratedText generate(TokenNetwork& network, std::span<const uint32_t> prompt,
                       const GenerationOptions& options, uint32_t sample);

}  // namespace dlflow::runtime
