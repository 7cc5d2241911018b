#include "runtime/nn/linear_rows.h"

#include "runtime/nn/linear_kernel.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

constexpr auto kFloat = memory::data_type::f32;

memory::desc rows_of(int64_t rows, int64_t columns) {
  return {{rows, columns}, kFloat, memory::format_tag::ab};
}

/// (columns, rows), in the memory of (rows, columns).
memory::desc transposed(int64_t rows, int64_t columns) {
  return {{columns, rows}, kFloat, memory::format_tag::ba};
}

/// A product of matrices, of which each may be read as its transpose.
class Product {
 public:
  Product() = default;
  Product(const dnnl::engine& engine, const Layer& layer, const memory::desc& a,
          const memory::desc& b, const memory::desc& bias, const memory::desc& result, bool relu)
      : a_(a, engine, DNNL_MEMORY_NONE), b_(b, engine, DNNL_MEMORY_NONE) {
    const auto desc =
        bias.is_zero() ? dnnl::matmul::desc(a, b, result) : dnnl::matmul::desc(a, b, bias, result);
    const dnnl::matmul::primitive_desc descriptor(desc, relu_behind(relu), engine);
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

class LinearRows : public WeightedOperation {
 public:
  LinearRows(const Builder& builder, const Layer& layer, const std::string& weight, bool relu,
             Value& input, Value& result)
      : WeightedOperation(builder, layer, weight, relu, layer.bias ? layer.units : 0, input,
                          result),
        rows_(input.desc().dims()[0]),
        inputs_(input.desc().dims()[1]) {
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

}  // namespace

bool is_linear_over_rows(const Builder& builder, const Layer& layer, const Value& input) {
  return builder.compute == Compute::Float32 && layer.shape.size() == 2 &&
         input.desc() == builder.plain_format(input.shape);
}

std::unique_ptr<Operation> make_linear_rows(const Builder& builder, const Layer& layer,
                                            const std::string& weight, bool relu, Value& input,
                                            Value& result) {
  return std::make_unique<LinearRows>(builder, layer, weight, relu, input, result);
}

}  // namespace dlflow::runtime
