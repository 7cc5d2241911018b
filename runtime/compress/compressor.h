#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dlflow::runtime {

/// The time and place of a compression, which a choice of numbers may depend on: then all ranks
/// agree on it, and a resumed run repeats it.
struct Occasion {
  uint64_t seed = 0;
  uint64_t step = 0;   ///< of the run, from 0
  size_t first = 0;    ///< where the range begins: tells the ranges of a step apart
  double density = 1;  ///< of sparse methods: the share of the numbers that is sent
};

/// Makes of a range of gradients a shorter message that stands for something near it. One file per
/// method; none keeps anything from call to call.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// The length of each message for `count` numbers on that occasion.
  virtual size_t message_bytes(size_t count, const Occasion& occasion) const = 0;

  /// Writes what stands for `values`; `message` is of message_bytes(), aligned to 4 bytes. If a
  /// value is NaN or infinite, so is something that the message stands for: training must stop.
  virtual void encode(std::span<const float> values, const Occasion& occasion,
                      std::span<std::byte> message) const = 0;

  /// Adds `sign` (1 or -1) times what `message` stands for to `into`, of as many numbers as were
  /// encoded.
  virtual void add(std::span<const std::byte> message, const Occasion& occasion, float sign,
                   std::span<float> into) const = 0;
};

/// The numbers of a range that a rank has not sent.
struct Unsent {
  std::span<float> error;     ///< with the newest gradient already added
  std::span<float> velocity;  ///< of momentum_correction.h, for sparse methods; else empty
};

/// Error feedback: writes to `message` what stands for `unsent.error`, and leaves there what it
/// leaves out, so that it is sent later: what all messages stand for and what is left add up to all
/// gradients. The velocity of what is sent becomes 0.
/// Source: Karimireddy, Rebjock, Stich and Jaggi, "Error feedback fixes SignSGD", ICML 2019.
void compress(const Compressor& compressor, const Occasion& occasion, const Unsent& unsent,
              std::span<std::byte> message);

}  // namespace dlflow::runtime
