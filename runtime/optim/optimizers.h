#pragma once

#include <memory>

#include "runtime/optim/optimizer.h"

/// The optimizers; a source file has one, or two that differ by a term.
namespace dlflow::runtime {

/// The part that all optimizers have in common: their options, and the learning rate of a step.
class RatedOptimizer : public Optimizer {
 public:
  explicit RatedOptimizer(const OptimizerOptions& options) : options_(options) {}

  void begin_step(double learning_rate, uint64_t /*number*/) override { rate_ = learning_rate; }

 protected:
  double rate(const LayerTerms& layer) const { return rate_ * layer.trust; }
  double decay(const LayerTerms& layer) const { return layer.decay(options_.weight_decay); }

  const OptimizerOptions options_;

 private:
  double rate_ = 0;
};

/// The constants of a step of Sgd or Lars.
struct MomentumFactors {
  float momentum, weight_decay, rate;
};

/// Stochastic gradient descent with momentum, in PyTorch's formula and order:
///   d = gradient + weight_decay * weight;  v = momentum * v + d;  weight = weight - rate * v,
/// or, with Nesterov's momentum, weight = weight - rate * (d + momentum * v).
/// Source: torch.optim.SGD with dampening 0; Sutskever et al., ICML 2013.
std::unique_ptr<Optimizer> make_sgd(const OptimizerOptions& options);

/// Adam: weight = weight - rate * direction (runtime/optim/moments.h). Weight decay is an L2
/// penalty, added to the gradient: g + weight_decay * weight.
/// Source: torch.optim.Adam; Kingma and Ba, arXiv 1412.6980.
std::unique_ptr<Optimizer> make_adam(const OptimizerOptions& options);

/// Adam with decoupled weight decay: weight = (1 - rate * weight_decay) * weight - rate * direction
/// (runtime/optim/moments.h).
/// Source: torch.optim.AdamW; Loshchilov and Hutter, arXiv 1711.05101, algorithm 2.
std::unique_ptr<Optimizer> make_adamw(const OptimizerOptions& options);

/// RMSprop: with g + weight_decay * weight as g,
///   v = alpha v + (1 - alpha) g g;  weight = weight - rate * g / (sqrt(v) + epsilon).
/// Source: torch.optim.RMSprop without momentum; Hinton, Coursera 2012, lecture 6e.
std::unique_ptr<Optimizer> make_rmsprop(const OptimizerOptions& options);

/// Adagrad: with g + weight_decay * weight as g,
///   s = s + g g;  weight = weight - rate * g / (sqrt(s) + epsilon).
/// Source: torch.optim.Adagrad without lr_decay; Duchi et al., JMLR 12 (2011).
std::unique_ptr<Optimizer> make_adagrad(const OptimizerOptions& options);

/// Layer-wise adaptive rate scaling: momentum SGD with a rate for each layer,
///   local = trust * |w| / (|g| + weight_decay * |w|);
///   v = momentum * v + rate * local * (g + weight_decay * w);  w = w - v.
/// local is 1 for one-dimensional layers, and if all weights or all gradients are zero.
/// Source: You, Gitman and Ginsburg, arXiv 1708.03888, algorithm 1.
std::unique_ptr<Optimizer> make_lars(const OptimizerOptions& options);

/// Layer-wise adaptive moments: Adam's direction (runtime/optim/moments.h) plus the decay, scaled
/// to the norm of the layer's weights,
///   r = direction + weight_decay * w;  w = w - rate * |w| / |r| * r.
/// The ratio is 1 if a norm is 0, and for one-dimensional layers, which do not decay either.
/// Source: You et al., arXiv 1904.00962, algorithm 2, with phi(z) = z.
std::unique_ptr<Optimizer> make_lamb(const OptimizerOptions& options);

}  // namespace dlflow::runtime
