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
/// a flat buffer of the caller, who exchanges and updates them. For use by one thread; oneDNN uses
/// as many threads as OpenMP provides. The same calls with the same number of threads, build and
/// instruction set give the same bits.
class Network {
 public:
  enum class Mode {
    Training,       ///< batch statistics; forward, then backward
    JointTraining,  ///< like Training; several networks can share one batch and its statistics
    Inference,      ///< running statistics; forward only, in a fraction of the memory
  };

  /// Chooses kernels and allocates all memory. Creates a layout unless it is given that of another
  /// network of the same model, in which case weights and gradients are converted where needed.
  /// Training may compute in bf16; inference does not.
  /// \param most_bytes  limit of value_bytes() in training: results that do not fit are recomputed
  ///                    for the backward pass, to the same bits
  /// Throws Error{InvalidInput} naming the layer if oneDNN has no optimised kernel for it, or if
  /// the values cannot fit.
  Network(const Model& model, int64_t batch_size, Mode mode,
          std::shared_ptr<const WeightLayout> layout = nullptr, Compute compute = Compute::Float32,
          size_t most_bytes = SIZE_MAX);
  Network(Network&&) noexcept;
  ~Network();

  const std::shared_ptr<const WeightLayout>& layout() const;

  /// The fraction of operations whose forward pass is computed twice.
  double recomputed_share() const;

  /// Memory for results of layers and their gradients, without weights; grows with the batch.
  size_t value_bytes() const;

  /// Records the forward and backward pass of each layer in `timeline`, which must outlive this.
  void use_timeline(Timeline& timeline);

  /// Sets the loss's label smoothing, from 0 (none) to less than 1 (runtime/nn/kernels.h).
  void use_label_smoothing(double smoothing);

  /// Sets the loss's class weights, one per class (runtime/nn/kernels.h); they must outlive this.
  void use_class_weights(std::span<const float> weights);

  /// Sets the source of random numbers of the next forward passes; `draws.samples` must stay valid
  /// until the backward pass has ended.
  void use_draws(const Draws& draws);

  /// The gradients that backward() can leave to OuterProducts; the same for all batch sizes of a
  /// layout.
  std::vector<ProductShape> products() const;

  /// From now on backward() does not write the gradients that `products` covers. It keeps their
  /// factors there before it calls ready(). `products` must outlive this.
  void leave_products_to(OuterProducts& products);

  /// Sets the weights: layout()->size() floats, 64-byte aligned, which must outlive the calls
  /// below. Must be called again whenever one of them has changed. If `await` is given, the next
  /// forward() calls `await(i)` before it first reads parameter i, which may change until that call
  /// returns.
  void use_weights(std::span<const float> weights, std::function<void(size_t)> await = {});

  /// Returns the loss of `images` (B,C,H,W or B,F or B,T tokens; fp32, plain order) against
  /// `labels` (B), each below the number of classes. A loss whose targets are the tokens themselves
  /// needs no labels. `targets` are (B, T) for losses that have them. For texts they are (B), the
  /// number of tokens of each; if the texts have classes, attention and means ignore later
  /// positions. All arguments must stay valid until backward() has returned.
  BatchResult forward(std::span<const float> images, std::span<const uint32_t> labels,
                      std::span<const float> targets = {});

  /// The scores of the last forward(): (B, classes), or (B, T, tokens).
  std::span<const float> scores() const;

  /// Writes `scale` times the gradient of loss_sum of the last forward() to `gradients`, which has
  /// the layout of the weights without the frozen ones. Writes B * `scale` times each batch
  /// statistic to the place of the running statistics. With scale = 1 / (samples of all ranks), the
  /// sum over ranks is the mean. Calls `ready(i)` once parameter i and all after it are final: i
  /// falls from the last to 0, while earlier layers are still to be computed.
  void backward(std::span<float> gradients, float scale,
                const std::function<void(size_t)>& ready = {});

  /// The same two passes in pieces, for networks that share one batch. begin_*() starts a pass.
  /// Each advance() runs to the next operation that needs sums over the whole batch and returns
  /// this network's sums, which the caller replaces by the totals before the next call; at the end
  /// of the pass it returns none. `ready` must stay callable until then.
  void begin_forward(std::span<const float> images, std::span<const uint32_t> labels,
                     std::span<const float> targets = {});
  void begin_backward(std::span<float> gradients, float scale,
                      const std::function<void(size_t)>& ready);
  std::span<double> advance();

  /// Number of sums that advance() returns at each stop of a forward pass; a backward pass has the
  /// reverse order.
  std::vector<size_t> joint_sums() const;

  /// The result of the forward pass; call after it has ended.
  BatchResult result();

  /// Repeats the last forward pass and returns the first layer whose result has a NaN or infinity,
  /// or an empty string.
  std::string first_not_finite();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlflow::runtime
