#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/nn/arena.h"
#include "runtime/nn/arithmetic.h"
#include "runtime/nn/draws.h"
#include "runtime/nn/fusion.h"
#include "runtime/nn/kernels.h"
#include "runtime/nn/outer_products.h"
#include "runtime/nn/parameter_memory.h"

/// The pieces of a network in execution. runtime/nn/assembly.h puts them together.
namespace dlflow::runtime {

/// A value that flows between operations: one operation writes it, any number read it.
struct Value {
  dnnl::memory data;
  TensorShape shape;            ///< of one sample
  bool needs_gradient = false;  ///< a trained parameter precedes it

  /// One from each reader, each in its own memory. Their sum is the gradient.
  std::vector<dnnl::memory> gradients;

  dnnl::memory::desc desc() const { return data.get_desc(); }
  size_t count() const;     ///< of numbers in memory, padding included
  Numbers numbers() const;  ///< for our own kernels
};

/// The parts and tools that operations are built from.
struct Builder {
  Arena& arena;
  ParameterMemory& parameters;
  int64_t batch = 0;
  bool training = false;
  bool joint = false;  ///< batch statistics are taken over several networks
  Compute compute = Compute::Float32;
  const Draws* draws = nullptr;  ///< of the current forward pass; lives as long as the operations
  /// For padded texts, the number of tokens of each; empty if all positions count. As `draws`.
  const std::span<const float>* lengths = nullptr;
  int time = 0;  ///< of the forward pass of the operation that is being built

  const dnnl::engine& engine() const { return parameters.engine(); }

  /// A new value of `desc`, written at `time`.
  dnnl::memory make(const dnnl::memory::desc& desc) const { return arena.add(desc, time); }

  /// The type of values, and of weights as convolutions and linear layers read them.
  dnnl::memory::data_type type() const;

  /// The format of every (B,C,H,W) between operations; a single format avoids conversions. nChw16c
  /// for fp32 with AVX-512, else nhwc: on AVX2, blocked formats select oneDNN's slowest code, and
  /// with bf16 they prevent the use of AMX.
  dnnl::memory::desc map_format(const TensorShape& shape) const;

  /// Row-major, for any number of dimensions.
  dnnl::memory::desc plain_format(const TensorShape& shape) const;

  /// Marks `memory` as read at `time`.
  void read(const dnnl::memory& memory) const { arena.keep(memory, time); }
};

/// The numbers of `memory`, which may be empty, for our own kernels.
Numbers numbers(const dnnl::memory& memory);

/// fp32, row-major: the format of a network's input and its scores.
dnnl::memory::desc plain_floats(int64_t batch, const TensorShape& shape);

/// How a value of map_format, or (B,C), lies in memory, for our own kernels.
MapGeometry map_geometry(const Value& value);

/// The two sizes of a window in oneDNN's form.
inline dnnl::memory::dims dims_of(const Extent& extent) { return {extent.height, extent.width}; }

/// Whether the channels of a map leave its last group of 16 partly empty.
bool is_padded(const dnnl::memory::desc& desc);

/// Sets the padding channels to 0, as oneDNN requires.
void clear_padding(const MapGeometry& geometry, int64_t channels, Numbers map);

/// Throws Error{InvalidInput} naming `layer` if `implementation` is oneDNN's reference code.
void require_optimised(const char* implementation, const Layer& layer);

/// The first step of a backward pass: sums the gradients of `result` into the first of them, and
/// sets the sum to 0 where ReLU cut the result off.
class GradientSum {
 public:
  GradientSum() = default;

  /// With `relu`, `result` is the result of a ReLU.
  GradientSum(const Builder& builder, const Value& result, bool relu);

  const dnnl::memory& sum() const { return sum_; }
  void run() const;

 private:
  dnnl::memory sum_;
  std::vector<dnnl::memory> more_;
  dnnl::memory mask_;
  size_t count_ = 0;
};

/// A fused layer, ready to run. Construction has two parts: the constructors, in order, allocate
/// the results; prepare_backward, in reverse order, collects the gradients of all readers and adds
/// one to each input that needs it.
class Operation {
 public:
  virtual ~Operation() = default;

  virtual void forward(dnnl::stream& stream) = 0;

  virtual void prepare_backward(const Builder& /*builder*/) {}
  virtual void backward(dnnl::stream& /*stream*/) {}

  /// Sums over the whole batch that forward() and backward() need if several networks share it:
  /// forward_sums() and backward_sums() return num_sums() sums over this network's samples, which
  /// the caller replaces by the totals before it calls forward() or backward().
  virtual size_t num_sums() const { return 0; }
  virtual std::span<double> forward_sums() { return {}; }
  virtual std::span<double> backward_sums() { return {}; }

  /// The trainable parameters whose gradients backward() writes, ascending.
  virtual std::vector<size_t> parameters() const { return {}; }

  /// Parameters of other operations that forward() also reads. backward() leaves its share of the
  /// gradient where their backward() adds its own.
  virtual std::vector<size_t> shared_parameters() const { return {}; }

  /// Whether any of these is trained. A frozen layer only passes gradients on.
  bool trains(const ParameterMemory& memory) const;

  /// The gradient that backward() can leave to OuterProducts; leave_product_to() makes it do so.
  virtual std::optional<ProductShape> product() const { return {}; }
  virtual void leave_product_to(OuterProducts& /*products*/) {}

  /// Writes `share` times the batch's statistics to their slots among the gradients.
  virtual void write_statistics(float /*share*/) {}
};

/// An operation with one input and no parameters. Its backward pass turns the gradient of the
/// result into that of the input.
class UnaryOperation : public Operation {
 public:
  /// Provides the gradient of the result, and memory for that of the input. An override must
  /// declare here if backward() reads `input` or the result.
  void prepare_backward(const Builder& builder) override;
  void backward(dnnl::stream& stream) final;

 protected:
  /// `result` lies in memory as `desc`; its readers see `shape`.
  UnaryOperation(const Builder& builder, Value& input, Value& result, const TensorShape& shape,
                 const dnnl::memory::desc& desc);

  /// A prepare_backward() for gradients that are changed in place: those of the result become those
  /// of the input, and dx() is not used. With `relu`, the operation is a ReLU.
  void share_gradient(const Builder& builder, bool relu);

  /// The second half of a backward pass: writes dx().
  virtual void pass_back(dnnl::stream& stream) = 0;

  const dnnl::memory& dy() const { return dy_.sum(); }
  const dnnl::memory& dx() const { return dx_; }

  Value& x_;
  Value& y_;

 private:
  GradientSum dy_;
  dnnl::memory dx_;
};

/// An operation with a weight, possibly that of another layer (Layer::tied), and possibly a bias.
class WeightedOperation : public Operation {
 public:
  std::vector<size_t> parameters() const final;
  std::vector<size_t> shared_parameters() const final;

 protected:
  /// The caller must still give a format to the parameter named `weight`, and memory to the result.
  /// The bias, in plain order, has `bias` numbers; 0: no bias.
  WeightedOperation(const Builder& builder, const Layer& layer, const std::string& weight,
                    bool relu, int64_t bias, Value& input, Value& result);

  /// The usual weight, and a bias for each of the layer's units if it has one.
  WeightedOperation(const Builder& builder, const Layer& layer, bool relu, Value& input,
                    Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", relu,
                          layer.bias ? layer.units : 0, input, result) {}

  using Arguments = std::unordered_map<int, dnnl::memory>;

  /// The arguments of oneDNN's passes, with the weight or its gradient in the given format.
  Arguments forward_arguments(const dnnl::memory::desc& weight) const;
  Arguments weights_arguments(const Builder& builder, const dnnl::memory::desc& gradient) const;
  Arguments data_arguments(const dnnl::memory::desc& weight, const dnnl::memory& dx) const;

  /// Allocates the gradient of the input.
  dnnl::memory make_dx(const Builder& builder);

  const float* bias() const;     ///< null without one
  float* bias_gradient() const;  ///< likewise

  const Layer& layer_;
  bool relu_, has_bias_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_index_, bias_index_ = 0;
  dnnl::memory::desc bias_format_;  // zero without a bias, as oneDNN's descriptors require
  GradientSum dy_;
};

/// Attributes that append a ReLU to a product if `relu` is set.
dnnl::primitive_attr relu_behind(bool relu);

/// Converts `input` to `format`; `result` is then described as `described` (of the same size). Both
/// must outlive the operation.
std::unique_ptr<Operation> make_reorder(const Builder& builder, const dnnl::memory::desc& format,
                                        const dnnl::memory::desc& described, Value& input,
                                        Value& result);

}  // namespace dlflow::runtime
