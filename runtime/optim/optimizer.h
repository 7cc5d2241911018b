#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Optimizers: one interface, and a file for each formula.
namespace dlflow::runtime {

struct OptimizerOptions {
  enum class Kind { Sgd, Adam, AdamW, Lars, Lamb };  // Lamb stays the last
  static constexpr std::array kKinds = {Kind::Sgd, Kind::Adam, Kind::AdamW, Kind::Lars, Kind::Lamb};
  static_assert(kKinds.size() == size_t(Kind::Lamb) + 1, "kKinds lacks an optimizer");

  Kind kind = Kind::Sgd;
  double weight_decay = 0;
  double momentum = 0.9;                              ///< of Sgd and Lars
  bool nesterov = false;                              ///< of Sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< of Adam, AdamW and Lamb
  double trust = 0.001;                               ///< of Lars: its coefficient eta

  bool operator==(const OptimizerOptions&) const = default;
};

/// As it is written in workflows: "sgd", "adam", "adamw", "lars", "lamb".
std::string name(OptimizerOptions::Kind kind);

/// The numbers that a step changes: the same elements of each buffer, any part of the whole.
struct Elements {
  static constexpr size_t kMostStates = 2;

  std::array<std::span<float>, kMostStates> state;  ///< the first Optimizer::state_names().size()
  std::span<float> weights;
};

/// How a layer's step differs from that of the others; all elements of one call are of one layer
/// then.
struct LayerTerms {
  double trust = 1;                                   ///< what its learning rate is multiplied by
  bool decays = true;                                 ///< whether it has a weight decay
  std::optional<double> weight_decay = std::nullopt;  ///< of its own

  /// Its weight decay, where that of the others is `usual`.
  double decay(double usual) const { return decays ? weight_decay.value_or(usual) : 0; }
};

/// Updates weights from their gradients, element by element. What it keeps for each weight lies in
/// memory of the caller, zero before the first step. No fused multiply-add, so that every CPU
/// computes the same bits. Zeros that pad a buffer stay zero.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Of the numbers that it keeps for each weight: what follows the weight's name in a checkpoint.
  virtual std::vector<std::string> state_names() const = 0;

  /// What update() and direct() do from now on belongs to step `number` of this training, from 1.
  virtual void begin_step(double learning_rate, uint64_t number) = 0;

  /// Each element takes the step, once. False if a weight is not a finite number now: looked for in
  /// passing, at no cost.
  [[nodiscard]] virtual bool update(std::span<const float> gradients, const Elements& elements,
                                    const LayerTerms& layer = {}) = 0;

  /// Whether each layer has a learning rate of its own. Then a step is direct() for all elements of
  /// a layer; trust_ratio(); and update() with that ratio. Layers of one dimension (biases, and the
  /// parameters of batch normalisation) have a ratio of 1 and do not decay.
  virtual bool layer_wise() const { return false; }

  /// Replaces gradients by the directions that trust_ratio() wants the length of.
  virtual void direct(std::span<float> /*gradients*/, const Elements& /*elements*/,
                      const LayerTerms& /*layer*/) {}

  /// From the layer's Euclidean norms, for its terms.
  virtual double trust_ratio(double /*of_weights*/, double /*of_directions*/,
                             const LayerTerms& /*layer*/) const {
    return 1;
  }
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace dlflow::runtime
