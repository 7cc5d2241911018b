#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dlflow::runtime {

/// Embeddings of the two inputs of samples: (samples, 2, size).
struct Pairs {
  const float* numbers = nullptr;
  int64_t samples = 0, size = 0;
};

struct ContrastiveSums {
  double loss = 0;
  int64_t num_correct = 0;  ///< first inputs that are nearest to the second of their own sample
};

/// The contrastive loss of two towers (Radford et al., "Learning transferable visual models from
/// natural language supervision", ICML 2021, with a fixed temperature). All embeddings are divided
/// by their length; the products of the first ones and the second ones, divided by `temperature`,
/// are scores. A sample's loss is half the softmax cross-entropy of its own pair among all pairs
/// with its first embedding, and half that among all pairs with its second one.
class ContrastiveLoss {
 public:
  explicit ContrastiveLoss(double temperature) : temperature_(temperature) {}

  /// The sums over samples [first, first + count) of `pairs`. Writes to `gradient` (count, 2, size)
  /// that of the sum over all samples of `pairs`. The same bits for the same arguments and number
  /// of threads. An embedding of zeros has no direction: its products are 0, and its gradient.
  ContrastiveSums measure(const Pairs& pairs, int64_t first, int64_t count,
                          std::span<float> gradient);

 private:
  void make_units(const Pairs& pairs, int side);
  void make_scores(const Pairs& pairs, int side);
  void make_gradient(const Pairs& pairs, int side, int64_t first, int64_t count,
                     std::span<float> gradient);

  /// One side of the pairs: the first embeddings, or the second ones, as seen from the others.
  struct Side {
    std::vector<float> units;     // (samples, size): embeddings of length 1
    std::vector<float> inverses;  // (samples): 1 / length
    std::vector<float> scores;    // (samples, samples): with the units of the other side
    std::vector<float> logs;      // (samples): logarithms of the sums of powers of scores
  };

  double temperature_;
  Side sides_[2];
  std::vector<float> slopes_;   // (count, samples)
  std::vector<float> by_unit_;  // (count, size)
};

}  // namespace dlflow::runtime
