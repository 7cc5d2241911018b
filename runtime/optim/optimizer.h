#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// Optimizers: one interface, and one file per formula.
namespace dlflow::runtime {

struct OptimizerOptions {
  enum class Kind { Sgd, Adam, AdamW, RmsProp, Adagrad, Lars, Lamb };  // Lamb must stay last
  static constexpr std::array kKinds = {Kind::Sgd,     Kind::Adam, Kind::AdamW, Kind::RmsProp,
                                        Kind::Adagrad, Kind::Lars, Kind::Lamb};
  static_assert(kKinds.size() == size_t(Kind::Lamb) + 1, "kKinds lacks an optimizer");

  Kind kind = Kind::Sgd;
  double weight_decay = 0;
  double momentum = 0.9;  ///< of Sgd and Lars
  double alpha = 0.99;    ///< of RmsProp: decay of the mean of squares
  bool nesterov = false;  ///< of Sgd
  double beta1 = 0.9, beta2 = 0.999,
         epsilon = 1e-8;  ///< of Adam, AdamW and Lamb; epsilon also of RmsProp and Adagrad
  double trust = 0.001;   ///< of Lars: its coefficient eta

  bool operator==(const OptimizerOptions&) const = default;
};

/// The name in workflows: "sgd", "adam", "adamw", "rmsprop", "adagrad", "lars", "lamb".
std::string name(OptimizerOptions::Kind kind);

/// The numbers that a step changes: the same range of each buffer.
struct Elements {
  static constexpr size_t kMostStates = 2;

  std::array<std::span<float>, kMostStates> state;  ///< the first Optimizer::state_names().size()
  std::span<float> weights;
};

/// Differences of a layer's step from the default; if given, all elements of a call must belong to
/// one layer.
struct LayerTerms {
  double trust = 1;                                   ///< factor of its learning rate
  bool decays = true;                                 ///< whether it has a weight decay
  std::optional<double> weight_decay = std::nullopt;  ///< overrides the usual one

  /// Its weight decay, given the `usual` one.
  double decay(double usual) const { return decays ? weight_decay.value_or(usual) : 0; }
};

/// Updates weights from their gradients, element by element. The caller owns the state kept for
/// each weight; it must be zero before the first step. Uses no fused multiply-add, so every CPU
/// computes the same bits. Zeros that pad a buffer stay zero.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Suffixes of the names of its states in checkpoints, after the weight's name.
  virtual std::vector<std::string> state_names() const = 0;

  /// Begins step `number` of this training, from 1, for the next calls of update() and direct().
  virtual void begin_step(double learning_rate, uint64_t number) = 0;

  /// Updates each element once. Returns false if a weight is no longer finite; this check costs
  /// nothing.
  [[nodiscard]] virtual bool update(std::span<const float> gradients, const Elements& elements,
                                    const LayerTerms& layer = {}) = 0;

  /// Whether each layer has its own learning rate. A step is then direct() for all elements of a
  /// layer, trust_ratio(), and update() with that ratio. One-dimensional layers (biases and the
  /// parameters of batch normalisation) have a ratio of 1 and do not decay.
  virtual bool layer_wise() const { return false; }

  /// Replaces gradients by the directions whose norm trust_ratio() needs.
  virtual void direct(std::span<float> /*gradients*/, const Elements& /*elements*/,
                      const LayerTerms& /*layer*/) {}

  /// Returns the layer's trust ratio, given its Euclidean norms and terms.
  virtual double trust_ratio(double /*of_weights*/, double /*of_directions*/,
                             const LayerTerms& /*layer*/) const {
    return 1;
  }
};

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace dlflow::runtime
