#include <array>
#include <span>

#include "runtime/cuda/algorithm_choice.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"
#include "runtime/cuda/weight_gradient.h"

namespace dlflow::cuda {
namespace {

ConvolutionShape shape_of(const Parts& parts) {
  const DlflowGpuOperation& d = parts.description;
  const Value &x = parts.input, &y = parts.output;
  return {int(parts.batch), int(x.channels), int(x.height), int(x.width),
          int(y.channels),  int(y.height),   int(y.width),  d.kernel_height,
          d.kernel_width,   d.stride,        d.padding};
}

class Convolution : public Operation {
 public:
  explicit Convolution(const Parts& parts)
      : p_(parts),
        shape_(shape_of(parts)),
        x_(parts.input.descriptor(parts.batch)),
        y_(parts.output.descriptor(parts.batch)) {
    const DlflowGpuOperation& d = p_.description;
    check(cudnnSetFilter4dDescriptor(w_.get(), CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                     int(p_.output.channels), int(p_.input.channels),
                                     d.kernel_height, d.kernel_width),
          "cudnnSetFilter4dDescriptor");
    check(
        cudnnSetConvolution2dDescriptor(convolution_.get(), d.padding, d.padding, d.stride,
                                        d.stride, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
    // Whatever algorithm is chosen uses no TF32 with CUDNN_FMA_MATH.
    check(cudnnSetConvolutionMathType(convolution_.get(),
                                      p_.tensor_float32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
    p_.tools.workspace->reserve(
        bias_gradient_scratch(p_.batch, p_.output.channels, p_.output.pixels()));
    choose_forward();
    choose_backward_filter();
    if (p_.has_input_gradient()) choose_backward_data();
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
    add_bias(p_.output.data.data(), p_.parameters.bias, p_.batch, p_.output.channels,
             p_.output.pixels(), relu, p_.tools.stream);
  }

  void backward() override {
    const Workspace& workspace = *p_.tools.workspace;
    float* const dy = p_.output.gradient.data();
    if (p_.gradients.bias != nullptr) {
      bias_gradient(dy, p_.cut_off(), p_.gradients.bias, p_.batch, p_.output.channels,
                    p_.output.pixels(), workspace.data(), p_.tools.stream);
    } else if (p_.cut_off() != nullptr) {
      mask_gradient(dy, p_.cut_off(), p_.num_outputs(), p_.tools.stream);
    }
    if (splits_) {
      weight_gradient(shape_, p_.input.data.data(), dy, p_.gradients.weight, workspace.data(),
                      p_.tools.stream);
    } else {
      check(cudnnConvolutionBackwardFilter(p_.tools.cudnn, &kOne, x_.get(), p_.input.data.data(),
                                           y_.get(), dy, convolution_.get(), backward_filter_,
                                           workspace.data(), workspace.bytes(), &kZero, w_.get(),
                                           p_.gradients.weight),
            "cudnnConvolutionBackwardFilter");
    }
    if (!p_.has_input_gradient()) return;
    check(cudnnConvolutionBackwardData(
              p_.tools.cudnn, &kOne, w_.get(), p_.parameters.weight, y_.get(), dy,
              convolution_.get(), backward_data_, workspace.data(), workspace.bytes(),
              p_.adds_input_gradient() ? &kOne : &kZero, x_.get(), p_.input.gradient.data()),
          "cudnnConvolutionBackwardData");
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
        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, p_.tensor_float32);
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
        CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, p_.tensor_float32);
    splits_ =
        backward_filter_ == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 && splits_weight_gradient(shape_);
    if (splits_) return p_.tools.workspace->reserve(weight_gradient_scratch(shape_));
    size_t bytes = 0;
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(p_.tools.cudnn, x_.get(), y_.get(),
                                                         convolution_.get(), w_.get(),
                                                         backward_filter_, &bytes),
          "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    p_.tools.workspace->reserve(bytes);
  }

  void choose_backward_data() {
    std::array<cudnnConvolutionBwdDataAlgoPerf_t, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT> found;
    int count = 0;
    check(cudnnGetConvolutionBackwardDataAlgorithm_v7(p_.tools.cudnn, w_.get(), y_.get(),
                                                      convolution_.get(), x_.get(),
                                                      int(found.size()), &count, found.data()),
          "cudnnGetConvolutionBackwardDataAlgorithm_v7");
    backward_data_ = choose_algorithm(
        std::span<const cudnnConvolutionBwdDataAlgoPerf_t>(found.data(), size_t(count)),
        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, p_.tensor_float32);
    size_t bytes = 0;
    check(cudnnGetConvolutionBackwardDataWorkspaceSize(p_.tools.cudnn, w_.get(), y_.get(),
                                                       convolution_.get(), x_.get(), backward_data_,
                                                       &bytes),
          "cudnnGetConvolutionBackwardDataWorkspaceSize");
    p_.tools.workspace->reserve(bytes);
  }

  const Parts p_;
  const ConvolutionShape shape_;
  TensorDescriptor x_, y_;
  FilterDescriptor w_;
  ConvolutionDescriptor convolution_;
  cudnnConvolutionFwdAlgo_t forward_{};
  cudnnConvolutionBwdFilterAlgo_t backward_filter_{};
  bool splits_ = false;  // the weights' gradient is weight_gradient()'s
  cudnnConvolutionBwdDataAlgo_t backward_data_{};
};

}  // namespace

std::unique_ptr<Operation> make_convolution(const Parts& parts) {
  return std::make_unique<Convolution>(parts);
}

}  // namespace dlflow::cuda
