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
    dnnl::primitive_attr attributes;
    if (relu) {
      dnnl::post_ops then;
      then.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      attributes.set_post_ops(then);
    }
    const auto desc =
        bias.is_zero() ? dnnl::matmul::desc(a, b, result) : dnnl::matmul::desc(a, b, bias, result);
    const dnnl::matmul::primitive_desc descriptor(desc, attributes, engine);
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

class LinearRows : public Operation {
 public:
  LinearRows(const Builder& builder, const Layer& layer, const std::string& weight, bool relu,
             Value& input, Value& result)
      : layer_(layer),
        relu_(relu),
        rows_(input.desc().dims()[0]),
        inputs_(input.desc().dims()[1]),
        parameters_(builder.parameters),
        x_(input),
        y_(result) {
    y_.shape = layer.shape;
    y_.data = builder.make(builder.plain_format(layer.shape));
    builder.read(x_.data);
    weight_index_ = parameters_.index(weight);
    weight_ = take(weight_index_, rows_of(layer.units, inputs_));
    memory::desc bias;
    if (layer.bias) {
      bias_index_ = parameters_.index(layer.name + ".bias");
      bias_ = take(bias_index_, {{layer.units}, kFloat, memory::format_tag::a});
      bias = rows_of(1, layer.units);
    }
    forward_ = Product(builder.engine(), layer, x_.desc(), transposed(layer.units, inputs_), bias,
                       y_.desc(), relu);
    y_.needs_gradient = x_.needs_gradient || trains(parameters_);
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
    dx_ = builder.make(x_.desc());
    x_.gradients.push_back(dx_);
    data_backward_ = Product(engine, layer_, y_.desc(), rows_of(layer_.units, inputs_), {},
                             dx_.get_desc(), false);
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (trains(parameters_)) {
      weight_backward_.execute(stream, dy_.sum(), x_.data, gradient_);
      if (layer_.bias) {
        sum_rows(static_cast<const float*>(dy_.sum().get_data_handle()), rows_, layer_.units,
                 parameters_.gradient_slot(bias_index_));
      }
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient) data_backward_.execute(stream, dy_.sum(), weight_, dx_);
  }

  std::vector<size_t> parameters() const override {
    std::vector<size_t> own;
    if (layer_.tied == kImages) own.push_back(weight_index_);
    if (layer_.bias) own.push_back(bias_index_);
    return own;
  }

  std::vector<size_t> shared_parameters() const override {
    if (layer_.tied == kImages) return {};
    return {weight_index_};
  }

 private:
  memory take(size_t index, const memory::desc& format) {
    parameters_.prefer(index, format);
    return parameters_.weight(index, format);
  }

  const Layer& layer_;
  bool relu_;
  int64_t rows_, inputs_;
  ParameterMemory& parameters_;
  Value& x_;
  Value& y_;
  size_t weight_index_ = 0;
  size_t bias_index_ = 0;
  memory weight_, bias_, gradient_, dx_;
  Product forward_, weight_backward_, data_backward_;
  GradientSum dy_;
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
