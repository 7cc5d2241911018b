#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/nn/model.h"
#include "runtime/nn/onednn.h"

/// Where each tensor of a network lies in the flat buffers that are exchanged and updated.
namespace dlflow::runtime {

/// fp32, row-major.
dnnl::memory::desc plain_order(const dnnl::memory::dims& shape);

/// One tensor of the network's state.
struct Parameter {
  std::string name;            ///< as in PyTorch: "conv1.weight", "bn1.running_mean"
  std::vector<int64_t> shape;  ///< plain: (out, in, height, width), (out, in) or (n)
  int64_t fan_in = 0;          ///< determines the initial bound; 0: starts at `initial`
  float initial = 0;
  bool trainable = true;  ///< false: a running statistic of batch normalisation, or frozen
  float bound = 0;        ///< starts uniform in +-bound; 0: determined by fan_in
  float deviation = 0;    ///< starts with normal random numbers of this standard deviation
  size_t offset = 0;      ///< of its slot, in floats; a multiple of 16, which fills cache lines
  size_t size = 0;        ///< of its slot, in floats; includes padding, which is always zero
  bool frozen = false;    ///< of a layer that training does not change
};

/// The order and formats of all parameters in a buffer of size() floats. Weights, gradients and
/// optimizer state share this layout, so that exchange and update are loops over floats. Trainable
/// parameters come first, in layer order; then the statistics; then frozen parameters, which
/// buffers of gradients omit. Each parameter has the format in which oneDNN writes its gradient for
/// the batch size of the network that made the layout. Other networks of the same model can use it
/// as well.
class WeightLayout {
 public:
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Size of a flat buffer, in floats.
  size_t size() const { return size_; }

  /// The trainable parameters come first, and so do their floats in a flat buffer.
  size_t num_trainable() const { return num_trainable_; }
  size_t trainable_size() const { return trainable_size_; }

  /// Trainable parameters and statistics, which ranks exchange and buffers of gradients hold.
  size_t num_exchanged() const { return num_exchanged_; }
  size_t exchanged_size() const { return exchanged_size_; }

  /// Describes where each number of each parameter lies: two layouts of one model have the same
  /// text if, and only if, their buffers may be added number by number.
  std::string formats() const;

  /// Returns parameter `index` of `buffer` in the plain order of its shape.
  std::vector<float> to_plain(std::span<const float> buffer, size_t index) const;

  /// Converts parameter `index` of `buffer` to plain order in place, and returns it.
  std::span<float> make_plain(std::span<float> buffer, size_t index) const;

  /// The inverse of to_plain(): writes slot `index` of `buffer`, padding included.
  /// Throws Error{InvalidInput} if the size of `values` is not the parameter's.
  void from_plain(std::span<const float> values, std::span<float> buffer, size_t index) const;

 private:
  friend class ParameterMemory;
  std::vector<Parameter> parameters_;
  std::vector<dnnl::memory::desc> formats_;
  size_t size_ = 0;
  size_t num_trainable_ = 0;
  size_t trainable_size_ = 0;
  size_t num_exchanged_ = 0;
  size_t exchanged_size_ = 0;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
};

/// The layout of `model` with every tensor in the plain order of its shape, for devices and other
/// code without oneDNN's formats.
std::shared_ptr<const WeightLayout> plain_layout(const Model& model);

/// Fills the buffers of `model` with their initial values, the same on every rank. By default, as
/// in PyTorch, weights and biases are uniform in +-1/sqrt(fan_in), batch normalisation starts at 1
/// and 0. Each number is a function of (`seed`, the parameter's name, its index in plain order)
/// alone.
/// \param weights  (layout.size()) floats, overwritten.
void initialise(const WeightLayout& layout, uint64_t seed, std::span<float> weights);

/// PyTorch's momentum: the step of running statistics towards those of the batch.
constexpr float kStatisticsMomentum = 0.1f;

/// Moves running statistics (or any part of them) towards those of the batch, which
/// Network::backward left among the gradients, summed over the ranks.
void update_statistics(std::span<const float> of_batch, std::span<float> running);

}  // namespace dlflow::runtime
