#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"

namespace dlflow::cuda {
namespace {

constexpr cudnnBatchNormMode_t kMode = CUDNN_BATCHNORM_SPATIAL;  // one mean per channel

class BatchNorm : public Operation {
 public:
  explicit BatchNorm(const Parts& parts)
      : p_(parts),
        x_(parts.input.descriptor(parts.batch)),
        channel_(1, parts.input.channels, 1, 1),
        mean_(size_t(parts.input.channels)),
        inverse_deviation_(size_t(parts.input.channels)),
        unused_(parts.has_input_gradient() ? 0 : size_t(parts.num_outputs())) {}

  void forward(bool training) override {
    float* y = p_.output.data.data();
    training ? forward_training(y) : forward_inference(y);
    const bool relu = p_.description.relu != 0;
    if (p_.second == nullptr && !relu) return;
    add(y, p_.second ? p_.second->data.data() : nullptr, y, p_.num_outputs(), relu,
        p_.tools.stream);
  }

  void backward() override {
    const float* dy = p_.output.gradient.data();
    // cuDNN has no call without the input's gradient: there is memory for it even if nobody asks.
    float* dx = p_.has_input_gradient() ? p_.input.gradient.data() : unused_.data();
    check(cudnnBatchNormalizationBackward(
              p_.tools.cudnn, kMode, &kOne, p_.adds_input_gradient() ? &kOne : &kZero, &kOne,
              &kZero, x_.get(), p_.input.data.data(), x_.get(), dy, x_.get(), dx, channel_.get(),
              p_.parameters.weight, p_.gradients.weight, p_.gradients.bias,
              double(p_.batch_norm_epsilon), mean_.data(), inverse_deviation_.data()),
          "cudnnBatchNormalizationBackward");
    if (p_.description.second_gradient == DLFLOW_GPU_NO_GRADIENT) return;
    pass_on(dy, p_.second->gradient.data(), p_.num_outputs(),
            p_.description.second_gradient == DLFLOW_GPU_ADD_TO, p_.tools.stream);
  }

 private:
  /// With a factor of 1, cuDNN's running statistics become those of the batch.
  void forward_training(float* y) {
    check(cudnnBatchNormalizationForwardTraining(
              p_.tools.cudnn, kMode, &kOne, &kZero, x_.get(), p_.input.data.data(), x_.get(), y,
              channel_.get(), p_.parameters.weight, p_.parameters.bias, 1.0, p_.gradients.mean,
              p_.gradients.variance, double(p_.batch_norm_epsilon), mean_.data(),
              inverse_deviation_.data()),
          "cudnnBatchNormalizationForwardTraining");
    if (p_.batch * p_.input.pixels() > 1) return;
    // cuDNN divides the variance of one value per channel by 0.
    const size_t bytes = size_t(p_.input.channels) * sizeof(float);
    check(cudaMemsetAsync(p_.gradients.variance, 0, bytes, p_.tools.stream), "cudaMemsetAsync");
  }

  void forward_inference(float* y) const {
    check(cudnnBatchNormalizationForwardInference(
              p_.tools.cudnn, kMode, &kOne, &kZero, x_.get(), p_.input.data.data(), x_.get(), y,
              channel_.get(), p_.parameters.weight, p_.parameters.bias, p_.parameters.mean,
              p_.parameters.variance, double(p_.batch_norm_epsilon)),
          "cudnnBatchNormalizationForwardInference");
  }

  const Parts p_;
  TensorDescriptor x_, channel_;
  DeviceArray<float> mean_, inverse_deviation_;  // of the last forward pass
  DeviceArray<float> unused_;
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const Parts& parts) {
  return std::make_unique<BatchNorm>(parts);
}

}  // namespace dlflow::cuda
