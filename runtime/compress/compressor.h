#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dlflow::runtime {

/// The time and place of a compression. A random choice depends on these only, so that all ranks
/// agree and a resumed run repeats it.
struct Occasion {
  uint64_t seed = 0;
  uint64_t step = 0;   ///< of the run, from 0
  size_t first = 0;    ///< the range's first element: distinguishes the ranges of a step
  double density = 1;  ///< sparse methods: the share of the numbers that is sent
};

/// Encodes a range of gradients as a shorter message that approximates it. One file per method; all
/// are stateless.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// The length of each message for `count` numbers on `occasion`.
  virtual size_t message_bytes(size_t count, const Occasion& occasion) const = 0;

  /// Encodes `values`; `message` has message_bytes(), aligned to 4 bytes. If a value is NaN or
  /// infinite, so is a decoded one: training must stop.
  virtual void encode(std::span<const float> values, const Occasion& occasion,
                      std::span<std::byte> message) const = 0;

  /// Adds `sign` (1 or -1) times the decoded `message` to `into`, which has as many numbers as were
  /// encoded.
  virtual void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
                   std::span<float> into) const = 0;
};

/// The numbers of a range that a rank has not sent.
struct Unsent {
  std::span<float> error;     ///< with the newest gradient already added
  std::span<float> velocity;  ///< for sparse methods, see correct_momentum(); otherwise empty
};

/// Error feedback: encodes `unsent.error` as `message` and leaves the difference there for later,
/// so that all messages plus the remainder add up to all gradients. The velocity of sent numbers
/// becomes 0.
/// Source: Karimireddy, Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD", ICML 2019.
void compress(const Compressor& compressor, const Occasion& occasion, const Unsent& unsent,
              std::span<std::byte> message);

}  // namespace dlflow::runtime
