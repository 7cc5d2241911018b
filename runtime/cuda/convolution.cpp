#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "runtime/cuda/algorithm_choice.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"
#include "runtime/cuda/weight_gradient.h"

namespace dlflow::cuda {
namespace {

ConvolutionShape shape_of(const OperationSetup& setup) {
  const DlflowGpuOperation& d = setup.description;
  const Value &x = setup.input, &y = setup.output;
  return {int(setup.batch), int(x.channels), int(x.height), int(x.width),
          int(y.channels),  int(y.height),   int(y.width),  d.kernel_height,
          d.kernel_width,   d.stride,        d.padding};
}

Rules rules_of(const OperationSetup& setup) {
  return {setup.tools.most_workspace, setup.tensor_float32};
}

/// With CUDNN_FMA_MATH, no algorithm uses TF32.
void describe(const ConvolutionDescriptor& convolution, int padding, int stride,
              bool tensor_float32) {
  check(cudnnSetConvolution2dDescriptor(convolution.get(), padding, padding, stride, stride, 1, 1,
                                        CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionMathType(convolution.get(),
                                    tensor_float32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
        "cudnnSetConvolutionMathType");
}

/// The gradient of a convolution's input. A 1x1 kernel with a stride skips pixels: the gradient is
/// computed only for those it reads, and then spread. cuDNN also computes the others: in fp32 on an
/// H200 this takes 1.4 to 4 times as long for resnet50's layers.
class InputGradient {
 public:
  /// The references must outlive this.
  InputGradient(const OperationSetup& setup, const ConvolutionShape& shape,
                const FilterDescriptor& w, const TensorDescriptor& y)
      : p_(setup),
        shape_(shape),
        w_(w),
        y_(y),
        spreads_(!setup.tensor_float32 && shape.kernel_height == 1 && shape.kernel_width == 1 &&
                 shape.stride > 1 && shape.padding == 0),
        dx_(setup.batch, shape.input_channels, spreads_ ? shape.output_height : shape.height,
            spreads_ ? shape.output_width : shape.width),
        read_bytes_(spreads_
                        ? round_up(size_t(shape.batch) * size_t(shape.input_channels) *
                                   size_t(shape.output_height * shape.output_width) * sizeof(float))
                        : 0) {
    describe(convolution_, shape.padding, spreads_ ? 1 : shape.stride, setup.tensor_float32);
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT> found;
    int count = 0;
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(p_.tools.cudnn, w_.get(), y_.get(),
                                                      convolution_.get(), dx_.get(),
                                                      int(found.size()), &count, found.data()),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    algorithm_ = choose_algorithm(
        std::span<const cudnnConvolutionBwdDataAlgoPerf_t>(found.data(), size_t(count)),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, rules_of(setup));
    size_t bytes = 0;
    check(
        cudnnGetConvolutionBackwardDataWorkspaceSize(
            p_.tools.cudnn, w_.get(), y_.get(), convolution_.get(), dx_.get(), algorithm_, &bytes),
        "cudnnGetConvolutionBackwardDataWorkspaceSize");
    p_.tools.workspace->reserve(read_bytes_ + bytes);
  }

  void run(const float* dy) const {
    const Workspace& workspace = *p_.tools.workspace;
    std::byte* const begin = static_cast<std::byte*>(workspace.data());
    float* const to = p_.input.gradient.data();
    float* const dx = spreads_ ? reinterpret_cast<float*>(begin) : to;
    const bool adds = p_.adds_input_gradient();
    check(cudnnConvolutionBackwardData(p_.tools.cudnn, &kOne, w_.get(), p_.parameters.weight,
                                       y_.get(), dy, convolution_.get(), algorithm_,
                                       begin + read_bytes_, workspace.bytes() - read_bytes_,
                                       adds && !spreads_ ? &kOne : &kZero, dx_.get(), dx),
          "cudnnConvolutionBackwardData");
    if (!spreads_) return;
    spread(dx, to, {p_.batch * p_.input.channels, shape_.height, shape_.width, shape_.stride, adds},
           p_.tools.stream);
  }

 private:
  /// Aligns cuDNN's scratch memory, which follows, like a separate allocation.
  static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

  const OperationSetup& p_;
  const ConvolutionShape& shape_;
  const FilterDescriptor& w_;
  const TensorDescriptor& y_;
  bool spreads_;
  TensorDescriptor dx_;
  size_t read_bytes_;  // scratch memory for the gradient of the pixels that are read
  ConvolutionDescriptor convolution_;
  cudnnConvolutionBwdDataAlgo_t algorithm_{};
};

class Convolution : public Operation {
 public:
  explicit Convolution(const OperationSetup& setup)
      : p_(setup),
        shape_(shape_of(setup)),
        x_(setup.input.descriptor(setup.batch)),
        y_(setup.output.descriptor(setup.batch)) {
    const DlflowGpuOperation& d = p_.description;
    check(cudnnSetFilter4dDescriptor(w_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                     int(p_.output.channels), int(p_.input.channels),
                                     d.kernel_height, d.kernel_width),
          "cudnnSetFilter4dDescriptor");
    describe(convolution_, d.padding, d.stride, p_.tensor_float32);
    p_.tools.workspace->reserve(bias_gradient_scratch(p_.output.maps(p_.batch)));
    choose_forward();
    choose_backward_filter();
    if (p_.has_input_gradient()) input_gradient_.emplace(p_, shape_, w_, y_);
  }

  void forward(bool /*training*/) override {
    const Workspace& workspace = *p_.tools.workspace;
    check(cudnnConvolutionForward(p_.tools.cudnn, &kOne, x_.get(), p_.input.data.data(), w_.get(),
                                  p_.parameters.weight, convolution_.get(), forward_,
                                  workspace.data(), workspace.bytes(), &kZero, y_.get(),
                                  p_.output.data.data()),
          "cudnnConvolutionForward");
    const bool relu = p_.description.relu != 0;
    if (p_.parameters.bias == nullptr && !relu) return;
    add_bias(p_.output.maps(p_.batch), p_.parameters.bias, {p_.output.data.data(), relu},
             p_.tools.stream);
  }

  void backward() override {
    const Workspace& workspace = *p_.tools.workspace;
    float* const dy = p_.output.gradient.data();
    if (p_.gradients.bias != nullptr) {
      bias_gradient(p_.output.maps(p_.batch), dy, p_.cut_off(), p_.gradients.bias,
                    p_.tools.scratch_stream());
    } else if (p_.cut_off() != nullptr) {
      mask_gradient(dy, p_.cut_off(), p_.num_outputs(), p_.tools.stream);
    }
    if (splits_) {
      weight_gradient(shape_, p_.input.data.data(), dy, p_.gradients.weight,
                      p_.tools.scratch_stream());
    } else {
      check(cudnnConvolutionBackwardFilter(p_.tools.cudnn, &kOne, x_.get(), p_.input.data.data(),
                                           y_.get(), dy, convolution_.get(), backward_filter_,
                                           workspace.data(), workspace.bytes(), &kZero, w_.get(),
                                           p_.gradients.weight),
            "cudnnConvolutionBackwardFilter");
    }
    if (input_gradient_) input_gradient_->run(dy);
  }

 private:
  void choose_forward() {
    std::array<cudnnConvolutionFwdAlgoPerf_t, CUDNN_CONVOLUTION_FWD_ALGO_COUNT> found;
    int count = 0;
    check(cudnnGetConvolutionForwardAlgorithm_v7(p_.tools.cudnn, x_.get(), w_.get(),
                                                 convolution_.get(), y_.get(), int(found.size()),
                                                 &count, found.data()),
          "cudnnGetConvolutionForwardAlgorithm_v7");
    forward_ = choose_algorithm(
        std::span<const cudnnConvolutionFwdAlgoPerf_t>(found.data(), size_t(count)),
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, rules_of(p_));
    size_t bytes = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(p_.tools.cudnn, x_.get(), w_.get(),
                                                  convolution_.get(), y_.get(), forward_, &bytes),
          "cudnnGetConvolutionForwardWorkspaceSize");
    p_.tools.workspace->reserve(bytes);
  }

  void choose_backward_filter() {
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT> found;
    int count = 0;
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(p_.tools.cudnn, x_.get(), y_.get(),
                                                        convolution_.get(), w_.get(),
                                                        int(found.size()), &count, found.data()),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    backward_filter_ = choose_algorithm(
        std::span<const cudnnConvolutionBwdFilterAlgoPerf_t>(found.data(), size_t(count)),
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, rules_of(p_));
    // On tensor cores, ALGO_1 does split the positions among blocks.
    splits_ = backward_filter_ == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 && !p_.tensor_float32 &&
              splits_weight_gradient(shape_);
    if (splits_) return p_.tools.workspace->reserve(weight_gradient_scratch(shape_));
    size_t bytes = 0;
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(p_.tools.cudnn, x_.get(), y_.get(),
                                                         convolution_.get(), w_.get(),
                                                         backward_filter_, &bytes),
          "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    p_.tools.workspace->reserve(bytes);
  }

  const OperationSetup p_;
  const ConvolutionShape shape_;
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  ConvolutionDescriptor convolution_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdFilterAlgo_t backward_filter_{};
  bool splits_ = false;  // weight_gradient() computes the weights' gradient
  std::optional<InputGradient> input_gradient_;
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const OperationSetup& setup) {
  return std::make_unique<Convolution>(setup);
}

}  // namespace dlflow::cuda
