#pragma once

#include <deque>
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

/// The pieces of a network that is being executed. runtime/nn/assembly.h puts them together.
namespace dlflow::runtime {

/// A value that flows between operations: one writes it, any number read it.
struct Value {
  dnnl::memory data;
  TensorShape shape;            ///< of one sample
  bool needs_gradient = false;  ///< there is something to train before it

  /// One from each reader, each its own memory. Their sum is the gradient.
  std::vector<dnnl::memory> gradients;

  dnnl::memory::desc desc() const { return data.get_desc(); }
  size_t count() const;     ///< of the numbers in memory, padding included
  Numbers numbers() const;  ///< for kernels of our own
};

/// The parts and tools that operations are built from.
struct Builder {
  Arena& arena;
  ParameterMemory& parameters;
  int64_t batch = 0;
  bool training = false;
  bool joint = false;  ///< batch statistics are those of several networks
  Compute compute = Compute::Float32;
  const Draws* draws = nullptr;  ///< of the forward pass that runs; lives as long as operations do
  /// Of texts that are filled up, the tokens of each; none where all positions count. As `draws`.
  const std::span<const float>* lengths = nullptr;
  int time = 0;  ///< of the operation that is being built; its backward pass has another

  const dnnl::engine& engine() const { return parameters.engine(); }

  /// A new value of `desc`, written now.
  dnnl::memory make(const dnnl::memory::desc& desc) const { return arena.add(desc, time); }

  /// Of values between operations, and of weights as convolutions and linear layers read them.
  dnnl::memory::data_type type() const;

  /// The format of every (B,C,H,W) between operations: one for all spares conversions. nChw16c for
  /// fp32 where AVX-512 is used; else nhwc: on AVX2 blocked formats end in oneDNN's slowest code,
  /// and with bf16 they keep it from using AMX.
  dnnl::memory::desc map_format(const TensorShape& shape) const;

  /// Row by row, whatever the number of dimensions.
  dnnl::memory::desc plain_format(const TensorShape& shape) const;

  /// `memory` is read now.
  void read(const dnnl::memory& memory) const { arena.keep(memory, time); }
};

/// `memory`, which may be none, for kernels of our own.
Numbers numbers(const dnnl::memory& memory);

/// fp32, row by row: what a network is given, and its scores.
dnnl::memory::desc plain_floats(int64_t batch, const TensorShape& shape);

/// How a value of map_format, or (B,C), lies in memory, for kernels of our own.
MapGeometry map_geometry(const Value& value);

/// As oneDNN wants the two sizes of a window.
inline dnnl::memory::dims dims_of(const Extent& extent) { return {extent.height, extent.width}; }

/// The channels of a map do not fill its last group of 16.
bool is_padded(const dnnl::memory::desc& desc);

/// Sets the channels that are not there to 0, which oneDNN counts on.
void clear_padding(const MapGeometry& geometry, int64_t channels, Numbers map);

/// Throws Error{InvalidInput} naming `layer` if `implementation` is oneDNN's reference code.
void require_optimised(const char* implementation, const Layer& layer);

/// `y`'s gradients summed into the first of them, set to 0 where ReLU cut y off: what a backward
/// pass begins with.
class GradientSum {
 public:
  GradientSum() = default;

  /// With `relu`, the result is that of a ReLU.
  GradientSum(const Builder& builder, const Value& result, bool relu);

  const dnnl::memory& sum() const { return sum_; }
  void run() const;

 private:
  dnnl::memory sum_;
  std::vector<dnnl::memory> more_;
  dnnl::memory mask_;
  size_t count_ = 0;
};

/// A fused layer, ready to run. Building is in two parts: the constructor (of each class, in order)
/// allocates the result; prepare_backward (in reverse order) finds the gradients of all readers
/// and leaves one with each input that needs it.
class Operation {
 public:
  virtual ~Operation() = default;

  virtual void forward(dnnl::stream& stream) = 0;

  virtual void prepare_backward(const Builder& /*builder*/) {}
  virtual void backward(dnnl::stream& /*stream*/) {}

  /// What forward() and backward() need of the whole batch if several networks share one:
  /// num_sums() sums over this network's samples, to be replaced by those over all before the other
  /// is called.
  virtual size_t num_sums() const { return 0; }
  virtual std::span<double> forward_sums() { return {}; }
  virtual std::span<double> backward_sums() { return {}; }

  /// The trainable parameters whose gradients backward() writes, ascending.
  virtual std::vector<size_t> parameters() const { return {}; }

  /// Parameters of other operations that forward() reads, too. backward() leaves its share of the
  /// gradient where they add theirs.
  virtual std::vector<size_t> shared_parameters() const { return {}; }

  /// Whether one of these is trained. A frozen layer passes gradients on alone.
  bool trains(const ParameterMemory& memory) const;

  /// The gradient that backward() could leave to OuterProducts instead of writing it; and to whom.
  virtual std::optional<ProductShape> product() const { return {}; }
  virtual void leave_product_to(OuterProducts& /*products*/) {}

  /// Writes `share` times the batch's statistics to their slots among the gradients.
  virtual void write_statistics(float /*share*/) {}
};

/// An operation of one input and no parameters: of the gradient of its result it makes the gradient
/// of its input.
class UnaryOperation : public Operation {
 public:
  /// The gradient of the result is there, and memory for that of the input. backward() may read
  /// `input` or the result only if an operation says so here.
  void prepare_backward(const Builder& builder) override;
  void backward(dnnl::stream& stream) final;

 protected:
  /// `result` will be `desc` in memory, and `shape` for who reads it.
  UnaryOperation(const Builder& builder, Value& input, Value& result, const TensorShape& shape,
                 const dnnl::memory::desc& desc);

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

/// An operation with a weight, perhaps that of another layer (Layer::tied), and perhaps a bias.
class WeightedOperation : public Operation {
 public:
  std::vector<size_t> parameters() const final;
  std::vector<size_t> shared_parameters() const final;

 protected:
  /// `weight`: the name of the parameter, which has still to get a format, as the result its
  /// memory. The bias, in plain order, has `bias` numbers; 0: there is none.
  WeightedOperation(const Builder& builder, const Layer& layer, const std::string& weight,
                    bool relu, int64_t bias, Value& input, Value& result);

  /// The usual weight, and a bias for each of the layer's units, if it has one.
  WeightedOperation(const Builder& builder, const Layer& layer, bool relu, Value& input,
                    Value& result)
      : WeightedOperation(builder, layer, layer.name + ".weight", relu,
                          layer.bias ? layer.units : 0, input, result) {}

  using Arguments = std::unordered_map<int, dnnl::memory>;

  /// The arguments of oneDNN's passes, with the weight or its gradient in the given format.
  Arguments forward_arguments(const dnnl::memory::desc& weight) const;
  Arguments weights_arguments(const Builder& builder, const dnnl::memory::desc& gradient) const;
  Arguments data_arguments(const dnnl::memory::desc& weight, const dnnl::memory& dx) const;

  /// Memory for the gradient of the input.
  dnnl::memory make_dx(const Builder& builder);

  const float* bias() const;     ///< null without one
  float* bias_gradient() const;  ///< likewise

  const Layer& layer_;
  bool relu_, has_bias_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_index_, bias_index_ = 0;
  dnnl::memory::desc bias_format_;  // zero without one, as oneDNN's descriptors take it
  GradientSum dy_;
};

/// Computes a ReLU behind a product, or nothing.
dnnl::primitive_attr relu_behind(bool relu);

/// The numbers of `input` in `format`; `result` is then described as `described` (of the same
/// size). Both outlive it.
std::unique_ptr<Operation> make_reorder(const Builder& builder, const dnnl::memory::desc& format,
                                        const dnnl::memory::desc& described, Value& input,
                                        Value& result);

}  // namespace dlflow::runtime
