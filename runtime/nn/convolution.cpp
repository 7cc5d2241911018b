#include <optional>

#include "runtime/nn/assembly.h"
#include "runtime/nn/convolution_choice.h"
#include "runtime/nn/convolution_passes.h"
#include "runtime/nn/kernel_convolution.h"
#include "runtime/nn/layer_shapes.h"

namespace dlflow::runtime {
namespace {

using dnnl::algorithm;
using dnnl::memory;

/// Up to this many channels, oneDNN's AVX-512 fp32 convolution takes its input in plain order: it
/// reads images without conversion, and has only reference code for nearly empty blocks.
constexpr int64_t kMaxPlainChannels = 3;

bool wants_plain(const Builder& builder, const TensorShape& input) {
  return input[0] <= kMaxPlainChannels && builder.compute == Compute::Float32 &&
         dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
}

/// Used by ranks with several threads; single-threaded ranks use our own kernel where it pays
/// (kernel_convolution.h). oneDNN's Winograd algorithm saves 3 of 4 multiplications in a 3x3
/// convolution. Its transforms cost more than that with few channels, and with few tiles of 4x4
/// pixels, since the weights are transformed in each call. Time relative to direct convolution, all
/// three passes, on AVX-512 with oneDNN 2.6: 0.57 (32 to 64 channels, 576 tiles), 0.48 (64, 3136),
/// 0.76 (64, 256), 0.98 (64, 64), 1.31 (64, 32), 0.96 (32, 512), 1.12 (32, 256), 1.25 (16, 3136).
/// oneDNN 3 does not have it.
bool worth_winograd(const Layer& layer, const TensorShape& in, int64_t batch) {
  const bool can = has_winograd_form(layer) && in[0] >= 32 && layer.units >= 32 &&
                   in[0] % 16 == 0 && layer.units % 16 == 0 &&
                   dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  if (layer.algorithm != ConvolutionAlgorithm::Auto) {
    return can && layer.algorithm == ConvolutionAlgorithm::Winograd;
  }
  const auto tiles = [](int64_t pixels) { return (pixels + 3) / 4; };
  const int64_t all_tiles = batch * tiles(layer.shape[1]) * tiles(layer.shape[2]);
  return can && all_tiles >= (in[0] * layer.units > int64_t{32} * 32 ? 64 : 512);
}

/// Whether Winograd also suits the weight gradient: with 32 channels this takes 1.12 to 1.16 times
/// as long as direct convolution (256 to 1024 tiles, AMD Zen 5), the other passes 0.88 to 0.95.
bool worth_winograd_for_weights(const Layer& layer, const TensorShape& in) {
  const bool is_wide = layer.padding.height > 1 || layer.padding.width > 1;
  return is_wide || in[0] * layer.units > int64_t{32} * 32;
}

/// Inference uses another algorithm instead.
[[noreturn]] void throw_no_winograd(const Layer& layer) {
  throw Error(Errc::InvalidInput,
              "layer '" + layer.name + "' (line " + std::to_string(layer.line) +
                  "): 'algorithm: winograd' cannot be used here. It needs fp32, AVX2, numbers of "
                  "channels that are multiples of 16, padding up to 2, and one thread per rank or "
                  "oneDNN 2 with AVX-512. Leave 'algorithm' out");
}

/// (O,C,K,K), or with groups G (G,O/G,C/G,K,K), which in plain order is the same as PyTorch's
/// (O,C/G,K,K).
memory::dims weight_dims(const Layer& layer, int64_t channels) {
  const Extent& k = layer.kernel;
  const int64_t g = layer.groups;
  if (g == 1) return {layer.units, channels, k.height, k.width};
  return {g, layer.units / g, channels / g, k.height, k.width};
}

class Convolution : public WeightedOperation {
 public:
  Convolution(const Builder& builder, const Layer& layer, bool relu, const memory::desc& format,
              Value& input, Value& result)
      : WeightedOperation(builder, layer, relu, input, result) {
    const memory::dims dims = weight_dims(layer, input.shape[0]);
    weight_ = memory::desc(dims, builder.type(), memory::format_tag::any);
    gradient_ = memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    const bool winograd =
        builder.compute == Compute::Float32 && worth_winograd(layer, input.shape, builder.batch);
    const auto direct = algorithm::convolution_direct, fast = algorithm::convolution_winograd;
    if (winograd) {
      build(builder, fast, worth_winograd_for_weights(layer, input.shape) ? fast : direct, format);
    }
    if (!forward_descriptor_) {
      const bool is_asked = builder.training && layer.algorithm == ConvolutionAlgorithm::Winograd;
      if (is_asked) throw_no_winograd(layer);
      build(builder, direct, direct, format);
    }
    require_optimised(forward_descriptor_->impl_info_str(), layer);

    if (builder.training) {
      require_optimised(weights_descriptor_->impl_info_str(), layer);
      parameters_.prefer(weight_index_, weights_descriptor_->diff_weights_desc());
    }
    parameters_.prefer(weight_index_, forward_descriptor_->weights_desc());
    y_.data = builder.make(format);
    forward_ = dnnl::convolution_forward(*forward_descriptor_);
    forward_arguments_ = forward_arguments(forward_descriptor_->weights_desc());
  }

  void forward(dnnl::stream& stream) override { forward_.execute(stream, forward_arguments_); }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, relu_);
    if (trains(parameters_)) {
      weights_backward_ = dnnl::convolution_backward_weights(*weights_descriptor_);
      weights_arguments_ = weights_arguments(builder, weights_descriptor_->diff_weights_desc());
    }
    if (!x_.needs_gradient) return;
    data_backward_ = dnnl::convolution_backward_data(*data_descriptor_);
    data_arguments_ = data_arguments(data_descriptor_->weights_desc(), make_dx(builder));
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    if (trains(parameters_)) {
      weights_backward_.execute(stream, weights_arguments_);
      parameters_.finish_gradient(stream, weight_index_);
    }
    if (x_.needs_gradient) data_backward_.execute(stream, data_arguments_);
  }

 private:
  /// Creates no descriptor if Winograd's algorithm cannot do one of the passes.
  void build(const Builder& builder, algorithm how, algorithm for_weights, const memory::desc& y) {
    try {
      const auto f = forward_with(builder, how, y);
      if (builder.training) {
        const auto like = how == for_weights ? f : forward_with(builder, for_weights, y);
        const auto w = weights_with(builder, for_weights, y, like);
        if (x_.needs_gradient) {
          data_descriptor_ = backward_primitive<dnnl::convolution_backward_data>(
              builder.engine(), f, how, x_.desc(), weight_, y, stride(), between(), padding(),
              padding());
          require_optimised(data_descriptor_->impl_info_str(), layer_);
        }
        weights_descriptor_ = w;
      }
      forward_descriptor_ = f;
    } catch (const dnnl::error& e) {
      if (how == algorithm::convolution_winograd) return;
      throw Error(Errc::InvalidInput, "layer '" + layer_.name + "' (line " +
                                          std::to_string(layer_.line) +
                                          "): oneDNN cannot compute this conv2d: " + e.what());
    }
  }

  dnnl::convolution_forward::primitive_desc forward_with(const Builder& builder, algorithm how,
                                                         const memory::desc& y) const {
    // Used for inference as well: oneDNN cannot convert to the weight format of Winograd inference.
    const auto kind = dnnl::prop_kind::forward_training;
    return forward_primitive<dnnl::convolution_forward>(builder.engine(), relu_behind(relu_), kind,
                                                        how, x_.desc(), weight_, bias_format_, y,
                                                        stride(), between(), padding(), padding());
  }

  /// `like` must use the same algorithm.
  dnnl::convolution_backward_weights::primitive_desc weights_with(
      const Builder& builder, algorithm how, const memory::desc& y,
      const dnnl::convolution_forward::primitive_desc& like) const {
    return backward_primitive<dnnl::convolution_backward_weights>(
        builder.engine(), like, how, x_.desc(), gradient_, bias_format_, y, stride(), between(),
        padding(), padding());
  }

  memory::dims stride() const { return dims_of(layer_.stride); }
  memory::dims padding() const { return dims_of(layer_.padding); }
  memory::dims between() const { return {layer_.dilation.height - 1, layer_.dilation.width - 1}; }

  memory::desc weight_, gradient_;
  std::optional<dnnl::convolution_forward::primitive_desc> forward_descriptor_;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> weights_descriptor_;
  std::optional<dnnl::convolution_backward_data::primitive_desc> data_descriptor_;
  dnnl::convolution_forward forward_;
  dnnl::convolution_backward_weights weights_backward_;
  dnnl::convolution_backward_data data_backward_;
  Arguments forward_arguments_, weights_arguments_, data_arguments_;
};

bool wants_plain_groups(const Builder& builder, const Layer& layer, const TensorShape& input) {
  return layer.groups > 1 &&
         !has_fast_passes(builder, layer, weight_dims(layer, input[0]), builder.map_format(input),
                          builder.map_format(layer.shape));
}

}  // namespace

/// A plain input gives a map. If it needs a gradient, the result must be plain as well.
Value& add_conv2d(Assembly& assembly, const LayerNode& node) {
  const Layer& layer = node.layer;
  const TensorShape& shape = assembly.input_shape(node);
  const bool plain_groups = wants_plain_groups(assembly.next(), layer, shape);
  const bool depthwise = is_depthwise(layer, shape) && assembly.next().compute == Compute::Float32;
  if (depthwise && plain_groups) return add_depthwise(assembly, node);
  const Builder& builder = assembly.next();
  if (uses_winograd(builder.compute, layer, shape, builder.batch)) {
    return add_winograd(assembly, node);
  }
  const bool plain = plain_groups || (!depthwise && wants_plain(assembly.next(), shape));
  const bool images =
      plain && assembly.reads_images(node) && assembly.next().compute == Compute::Float32;
  Value& x = images ? assembly.images() : assembly.input(node);
  Value& in = plain && !images ? assembly.reordered(x, assembly.next().plain_format(x.shape)) : x;
  const memory::desc map = assembly.next().map_format(layer.shape);
  const bool plain_result = plain_groups || (plain && x.needs_gradient);
  const memory::desc format = plain_result ? assembly.next().plain_format(layer.shape) : map;
  Value& y = assembly.add<Convolution>(layer, node.relu, format, in);
  return plain_result ? assembly.reordered(y, map) : y;
}

}  // namespace dlflow::runtime
