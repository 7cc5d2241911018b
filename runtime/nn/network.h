#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/arithmetic.h"
#include "runtime/nn/draws.h"
#include "runtime/nn/loss.h"
#include "runtime/nn/model.h"
#include "runtime/nn/outer_products.h"
#include "runtime/nn/weight_layout.h"
#include "runtime/timeline/timeline.h"

/// A model that can be executed for one batch size, on oneDNN.
namespace dlflow::runtime {

/// Executes a model for batches of exactly B = `batch_size` samples. Holds no weights: they lie in
/// a flat buffer of the caller, who exchanges and updates them. One thread calls it; oneDNN uses as
/// many threads as OpenMP gives. The same calls with the same number of threads, build and
/// instruction set give the same bits.
class Network {
 public:
  enum class Mode {
    Training,       ///< batch statistics; forward, then backward
    JointTraining,  ///< as Training; several networks can share one batch and its statistics
    Inference,      ///< running statistics; forward only, in a fraction of the memory
  };

  /// Chooses kernels and allocates all memory. Makes a layout of its own unless it is given that of
  /// another network of the same model: then weights and gradients are converted where needed.
  /// Training may compute in bf16; inference does not.
  /// \param most_bytes  of value_bytes(), in training: what does not fit is computed a second time,
  ///                    for the backward pass, to the same bits
  /// Throws Error{InvalidInput} naming the layer if oneDNN has no optimised kernel for it, or if
  /// the values do not fit in any case.
  Network(const Model& model, int64_t batch_size, Mode mode,
          std::shared_ptr<const WeightLayout> layout = nullptr, Compute compute = Compute::Float32,
          size_t most_bytes = SIZE_MAX);
  Network(Network&&) noexcept;
  ~Network();

  const std::shared_ptr<const WeightLayout>& layout() const;

  /// The share of operations whose forward pass is computed twice, from 0 to 1.
  double recomputed_share() const;

  /// Memory for results of layers and their gradients, without weights; grows with the batch.
  size_t value_bytes() const;

  /// Forward and backward pass of each layer go there from now on; it must outlive this.
  void use_timeline(Timeline& timeline);

  /// Of the loss from now on, from 0 (none) to less than 1 (runtime/nn/kernels.h).
  void use_label_smoothing(double smoothing);

  /// Of the loss from now on, one for each class (runtime/nn/kernels.h); they must outlive this.
  void use_class_weights(std::span<const float> weights);

  /// What the random numbers of the forward passes that follow depend on; `draws.samples` must stay
  /// until the backward pass has ended.
  void use_draws(const Draws& draws);

  /// The gradients that backward() could leave to OuterProducts. Networks of one layout and
  /// different batch sizes have the same.
  std::vector<ProductShape> products() const;

  /// From now on backward() does not write the gradients that `products` has, but keeps there what
  /// they are made of, before it calls ready(); `products` must outlive this.
  void leave_products_to(OuterProducts& products);

  /// Takes `weights` (layout()->size() floats, 64-byte aligned) as the weights, which must outlive
  /// the calls below. To be called again whenever a number in it has changed. Those of parameter i
  /// may change until `await(i)`, if given, has returned, which the next forward() calls before it
  /// first reads them.
  void use_weights(std::span<const float> weights, std::function<void(size_t)> await = {});

  /// The loss of `images` (B,C,H,W or B,F or B,T tokens; fp32, plain order) against `labels` (B),
  /// each below the number of classes; what the model's loss finds in the tokens needs none. A loss
  /// that has them compares with `targets` (B, T); of texts they are (B), the tokens of each, and
  /// if these have a class, what stands behind them is seen by no attention and no mean. All must
  /// stay until backward() has returned.
  BatchResult forward(std::span<const float> images, std::span<const uint32_t> labels,
                      std::span<const float> targets = {});

  /// (B, classes), or (B, T, tokens), of the last forward().
  std::span<const float> scores() const;

  /// Writes `scale` times the gradient of loss_sum of the last forward() to `gradients`, which
  /// has the layout of the weights, without what is frozen, and B * `scale` times each batch
  /// statistic where the running statistics lie; with scale = 1 / (samples of all ranks), the sum
  /// over ranks is the mean. `ready(i)` is called once nothing will write parameter i or any after
  /// it: i falls from the last to 0, while the layers before are still to come.
  void backward(std::span<float> gradients, float scale,
                const std::function<void(size_t)>& ready = {});

  /// The same two passes in pieces, for networks that share one batch. begin_*() starts a pass;
  /// each advance() goes on to the next place where sums over the whole batch are needed and
  /// returns those over this network's samples, to be replaced before the next call; at the end of
  /// the pass none. `ready` must stay callable until then.
  void begin_forward(std::span<const float> images, std::span<const uint32_t> labels,
                     std::span<const float> targets = {});
  void begin_backward(std::span<float> gradients, float scale,
                      const std::function<void(size_t)>& ready);
  std::span<double> advance();

  /// Number of sums that advance() returns at each stop of a forward pass; of a backward pass in
  /// reverse.
  std::vector<size_t> joint_sums() const;

  /// After the forward pass.
  BatchResult result();

  /// After the forward pass, which is done once more: the first layer with a result that is NaN or
  /// infinite; empty if there is none.
  std::string first_not_finite();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlflow::runtime
