#include <omp.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/nn/assembly.h"
#include "runtime/nn/linear_kernel.h"
#include "runtime/nn/operation.h"
#include "runtime/nn/outer_products.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

constexpr auto kFloat = memory::data_type::f32;

memory::desc rows_of(int64_t rows, int64_t columns) {
  return {{rows, columns}, kFloat, memory::format_tag::ab};
}

/// (columns, rows), as a view of the memory of (rows, columns).
memory::desc transposed(int64_t rows, int64_t columns) {
  return {{columns, rows}, kFloat, memory::format_tag::ba};
}

/// A matrix product; each factor may be read transposed.
class Product {
 public:
  Product() = default;
  Product(const dnnl::engine& engine, const Layer& layer, const memory::desc& a,
          const memory::desc& b, const memory::desc& bias, const memory::desc& result, bool relu)
      : a_(a, engine, DNNL_MEMORY_NONE), b_(b, engine, DNNL_MEMORY_NONE) {
    const auto descriptor =
        forward_primitive<dnnl::matmul>(engine, relu_behind(relu), a, b, bias, result);
    require_optimised(descriptor.impl_info_str(), layer);
    product_ = dnnl::matmul(descriptor);
    if (!bias.is_zero()) bias_ = memory(bias, engine, DNNL_MEMORY_NONE);
  }

  void execute(dnnl::stream& stream, const memory& a, const memory& b, const memory& result,
               const memory& bias = {}) {
    a_.set_data_handle(a.get_data_handle());
    b_.set_data_handle(b.get_data_handle());
    std::unordered_map<int, memory> arguments = {
        {DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, result}};
    if (bias_) {
      bias_.set_data_handle(bias.get_data_handle());
      arguments[DNNL_ARG_BIAS] = bias_;
    }
    product_.execute(stream, arguments);
  }

 private:
  dnnl::matmul product_;
  memory a_, b_, bias_;
};

/// A linear layer over the positions of sequences in fp32: y (R,O) = x (R,F) w' + b, where R counts
/// the rows of all samples. Each of its three products takes matrices in plain order. For 2,000
/// rows, oneDNN's inner product is up to 1.8 times slower (weight gradient) and 1.2 times slower
/// (data), and needs its own weight formats.
class LinearRows : public WeightedOperation {
 public:
  LinearRows(const Builder& builder, const Layer& layer, const std::string& weight, bool relu,
             Value& input, Value& result)
      : WeightedOperation(builder, layer, weight, relu, layer.bias ? layer.units : 0, input,
                          result),
        rows_(dimensions(input.desc())[0]),
        inputs_(dimensions(input.desc())[1]) {
    y_.data = builder.make(builder.plain_format(layer.shape));
    const memory::desc format = rows_of(layer.units, inputs_);
    parameters_.prefer(weight_index_, format);
    weight_ = parameters_.weight(weight_index_, format);
    if (layer.bias) bias_ = parameters_.weight(bias_index_, bias_format_);
    const memory::desc bias = layer.bias ? rows_of(1, layer.units) : memory::desc();
    forward_ = Product(builder.engine(), layer, x_.desc(), transposed(layer.units, inputs_), bias,
                       y_.desc(), relu);
  }

  void forward(dnnl::stream& stream) override {
    forward_.execute(stream, x_.data, weight_, y_.data, bias_);
  }

  void prepare_backward(const Builder& builder) override {
    const dnnl::engine& engine = builder.engine();
    dy_ = GradientSum(builder, y_, relu_);
    if (trains(parameters_)) {
      builder.read(x_.data);
      const memory::desc desc = rows_of(layer_.units, inputs_);
      gradient_ = parameters_.gradient(weight_index_, desc);
      weight_backward_ =
          Product(engine, layer_, transposed(rows_, layer_.units), x_.desc(), {}, desc, false);
    }
    if (!x_.needs_gradient) return;
    dx_ = make_dx(builder);
    data_backward_ = Product(engine, layer_, y_.desc(), rows_of(layer_.units, inputs_), {},
                             dx_.get_desc(), false);
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (trains(parameters_)) {
      weight_backward_.execute(stream, dy_.sum(), x_.data, gradient_);
      if (layer_.bias) {
        sum_rows(static_cast<const float*>(dy_.sum().get_data_handle()), rows_, layer_.units,
                 bias_gradient());
      }
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient) data_backward_.execute(stream, dy_.sum(), weight_, dx_);
  }

 private:
  int64_t rows_, inputs_;
  memory weight_, bias_, gradient_, dx_;
  Product forward_, weight_backward_, data_backward_;
};

bool is_linear_over_rows(const Builder& builder, const Layer& layer, const Value& input) {
  return builder.compute == Compute::Float32 && layer.shape.size() == 2 &&
         input.desc() == builder.plain_format(input.shape);
}

constexpr int64_t kBlock = OuterProducts::kRows;

/// Whether the format is blocked, without padding.
bool is_dense(const memory::desc& desc) {
  const MemoryFormat format = format_of(desc);
  return format.kind == dnnl_blocked && type_of(desc) == kFloat &&
         format.padded == dimensions(desc);
}

/// Whether the innermost blocks have these dimensions and sizes.
bool has_blocks(const MemoryFormat& format, const memory::dims& dimensions,
                const memory::dims& sizes) {
  return format.block_dimensions == dimensions && format.block_sizes == sizes;
}

/// Whether the stride of each dimension but the first is `factor` times as large in `a` as in `b`.
bool has_strides(const MemoryFormat& a, const MemoryFormat& b, int64_t factor) {
  return std::equal(a.strides.begin() + 1, a.strides.end(), b.strides.begin() + 1,
                    [&](int64_t x, int64_t y) { return x == y * factor; });
}

int64_t inputs_of(const memory::desc& x) {
  const memory::dims dims = dimensions(x);
  return num_numbers({dims.begin() + 1, dims.end()});
}

/// The product shape of weight `parameter` (O,...) of a linear layer with the input `x` (B,...),
/// both fp32; `weight` is the weight's memory format. Returns nothing if OuterProducts cannot write
/// this format: it needs a group of outputs for each input, in the order of the inputs in a sample.
std::optional<ProductShape> product_shape(size_t parameter, const memory::desc& weight,
                                          const memory::desc& x) {
  if (!is_dense(weight) || !is_dense(x)) return {};
  const MemoryFormat from = format_of(x), to = format_of(weight);
  const bool blocks = has_blocks(from, {1}, {kBlock});
  const bool plain = has_blocks(from, {}, {}) && from.strides.size() == 2 && from.strides[1] == 1;
  if (!blocks && !plain) return {};

  const int64_t inputs = inputs_of(x), outputs = dimensions(weight)[0];
  const int64_t group = to.block_sizes.size() == 2 ? to.block_sizes[1] : 0;
  const bool fits = group > 0 && has_blocks(to, {1, 0}, {kBlock, group}) &&
                    has_strides(to, from, blocks ? group : group * kBlock) &&
                    (outputs == group || to.strides[0] == inputs * group) &&
                    group % OuterProducts::kColumns == 0 && inputs % kBlock == 0;
  return fits ? std::optional(ProductShape{parameter, inputs, outputs, group}) : std::nullopt;
}

/// oneDNN's inner product. Its input may still be a map (B,C,H,W) in oneDNN's format: then the
/// weights are (O,C,H,W), which in plain order is the same as (O,F).
class Linear : public WeightedOperation {
 public:
  /// \param weight  the name of the parameter
  Linear(const Builder& builder, const Layer& layer, const std::string& weight, bool relu,
         Value& input, Value& result)
      : WeightedOperation(builder, layer, weight, relu, layer.bias ? layer.units : 0, input,
                          result) {
    memory::dims weight_dims = dimensions(input.desc());
    weight_dims[0] = layer.units;
    weight_ = memory::desc(weight_dims, builder.type(), memory::format_tag::any);
    gradient_ = memory::desc(weight_dims, memory::data_type::f32, memory::format_tag::any);
    const memory::desc y_desc = builder.plain_format(layer.shape);
    build_forward(builder, y_desc);
    if (builder.training) build_weights_backward(builder, y_desc);
    parameters_.prefer(weight_index_, forward_descriptor_.weights_desc());

    y_.data = builder.make(y_desc);
    forward_ = dnnl::inner_product_forward(forward_descriptor_);
    forward_arguments_ = forward_arguments(forward_descriptor_.weights_desc());
  }

  void forward(dnnl::stream& stream) override { forward_.execute(stream, forward_arguments_); }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, relu_);
    if (trains(parameters_)) {
      weights_backward_ = dnnl::inner_product_backward_weights(weights_descriptor_);
      weights_arguments_ = weights_arguments(builder, weights_descriptor_.diff_weights_desc());
    }
    if (x_.needs_gradient) prepare_data_backward(builder);
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (products_ != nullptr) {
      leave_product();
    } else if (trains(parameters_)) {
      weights_backward_.execute(stream, weights_arguments_);
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient) data_backward(stream);
  }

  /// Requires AVX-512, one thread, and one row per sample.
  std::optional<ProductShape> product() const override {
    const bool possible = parameters_.trains(weight_index_) && x_.shape.size() != 2 &&
                          omp_get_max_threads() == 1 &&
                          dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
    if (!possible) return {};
    return product_shape(weight_index_, parameters_.format(weight_index_), x_.desc());
  }

  void leave_product_to(OuterProducts& products) override {
    if (!products.has(weight_index_)) return;
    DLFLOW_CHECK(product());
    products_ = &products;
  }

 private:
  void leave_product() {
    const auto* x = static_cast<const float*>(x_.data.get_data_handle());
    const auto* dy = static_cast<const float*>(dy_.sum().get_data_handle());
    products_->keep(weight_index_, x, dy);
    if (layer_.bias) sum_rows(dy, num_samples(), layer_.units, bias_gradient());
  }

  int64_t num_samples() const { return dimensions(y_.desc())[0]; }

  void prepare_data_backward(const Builder& builder) {
    dx_ = make_dx(builder);
    own_shape_ = product();
    if (own_shape_ && !has_linear_backward_data(*own_shape_, num_samples())) own_shape_.reset();
    if (own_shape_) return;
    const auto descriptor = build_data_backward(builder);
    data_backward_ = dnnl::inner_product_backward_data(descriptor);
    data_arguments_ = data_arguments(descriptor.weights_desc(), dx_);
  }

  void data_backward(dnnl::stream& stream) {
    if (!own_shape_) return data_backward_.execute(stream, data_arguments_);
    linear_backward_data(*own_shape_, parameters_.weight_slot(weight_index_),
                         static_cast<const float*>(dy_.sum().get_data_handle()), num_samples(),
                         static_cast<float*>(dx_.get_data_handle()));
  }

  void build_forward(const Builder& builder, const memory::desc& y) {
    const auto kind =
        builder.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    forward_descriptor_ = forward_primitive<dnnl::inner_product_forward>(
        builder.engine(), relu_behind(relu_), kind, x_.desc(), weight_, bias_format_, y);
    require_optimised(forward_descriptor_.impl_info_str(), layer_);
  }

  void build_weights_backward(const Builder& builder, const memory::desc& y) {
    weights_descriptor_ = backward_primitive<dnnl::inner_product_backward_weights>(
        builder.engine(), forward_descriptor_, x_.desc(), gradient_, bias_format_, y);
    require_optimised(weights_descriptor_.impl_info_str(), layer_);
    parameters_.prefer(weight_index_, weights_descriptor_.diff_weights_desc());
  }

  /// Uses the flat buffer's own format if it runs the same code, which saves a conversion per step.
  dnnl::inner_product_backward_data::primitive_desc build_data_backward(
      const Builder& builder) const {
    const auto build = [&](const memory::desc& weight) {
      return backward_primitive<dnnl::inner_product_backward_data>(
          builder.engine(), forward_descriptor_, x_.desc(), weight, y_.desc());
    };
    auto preferred = build(weight_);
    require_optimised(preferred.impl_info_str(), layer_);
    if (builder.compute != Compute::Float32) return preferred;
    try {
      const auto same = build(parameters_.format(weight_index_));
      const bool equal = std::string(same.impl_info_str()) == preferred.impl_info_str();
      return equal ? same : preferred;
    } catch (const dnnl::error&) {
      return preferred;
    }
  }

  memory::desc weight_, gradient_;
  dnnl::inner_product_forward::primitive_desc forward_descriptor_;
  dnnl::inner_product_backward_weights::primitive_desc weights_descriptor_;
  dnnl::inner_product_forward forward_;
  dnnl::inner_product_backward_weights weights_backward_;
  dnnl::inner_product_backward_data data_backward_;
  Arguments forward_arguments_, weights_arguments_, data_arguments_;
  OuterProducts* products_ = nullptr;      // computes the weight's gradient; null: backward() does
  std::optional<ProductShape> own_shape_;  // of the weight, if linear_backward_data computes dx
  memory dx_;
};

}  // namespace

Value& add_linear(Assembly& assembly, const LayerNode& node) {
  Value& x = assembly.input(node);
  const std::string weight = assembly.model().weight_of(node.layer);
  return assembly.add_made([&](Value& y) -> std::unique_ptr<Operation> {
    const Builder builder = assembly.next();
    if (is_linear_over_rows(builder, node.layer, x)) {
      return std::make_unique<LinearRows>(builder, node.layer, weight, node.relu, x, y);
    }
    return std::make_unique<Linear>(builder, node.layer, weight, node.relu, x, y);
  });
}

}  // namespace dlflow::runtime
