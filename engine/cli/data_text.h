#pragma once

#include <cstdint>
#include <string>

#include "runtime/data/binary_format.h"

namespace dlflow {

/// The classes, targets or masks of samples.
struct Answers {
  uint32_t classes = 0, targets = 0;
  bool masks = false;
};

/// "60,000 samples of 1 x 28 x 28 bytes in 10 classes", "506 samples of 13 floats with 1 target",
/// "400 samples of 3 x 64 x 64 bytes with masks of 5 classes", "90 samples of 3 x 224 x 224 bytes
/// from JPEG in 4 classes"
std::string describe_samples(uint64_t samples, const runtime::ImageShape& shape,
                             runtime::PixelType type, const Answers& answers);

/// The samples of a set of tokens.
struct TokenCounts {
  uint64_t samples = 0;
  uint32_t length = 0;   ///< tokens of each sample, at most if `unequal`
  bool unequal = false;  ///< samples are texts of different lengths
  uint64_t tokens = 0;   ///< over all samples
  uint32_t classes = 0;  ///< 0: the samples have none
};

/// "1,204 samples of 256 tokens, vocabulary 4,096, 3.42 bytes per token", "1,204 samples of up to
/// 256 tokens, 92.4 on average, in 4 classes, …"
std::string describe_tokens(const TokenCounts& counts, uint64_t vocabulary, double bytes_per_token);

}  // namespace dlflow
