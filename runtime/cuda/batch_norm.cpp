#include "runtime/cuda/batch_norm_kernels.h"
#include "runtime/cuda/operation.h"

namespace dlflow::cuda {
namespace {

GradientTo gradient_to(const Value& value, int32_t gradient) {
  if (gradient == DLFLOW_GPU_NO_GRADIENT) return {};
  return {value.gradient.data(), gradient == DLFLOW_GPU_ADD_TO};
}

class BatchNorm : public Operation {
 public:
  explicit BatchNorm(const Parts& parts)
      : p_(parts),
        maps_{parts.batch, parts.input.channels, parts.input.pixels()},
        mean_(size_t(parts.input.channels)),
        inverse_deviation_(size_t(parts.input.channels)) {
    p_.tools.workspace->reserve(batch_norm_scratch(maps_));
  }

  void forward(bool training) override {
    const float *x = p_.input.data.data(), *second = p_.second ? p_.second->data.data() : nullptr;
    float* y = p_.output.data.data();
    if (!training) {
      batch_norm_inference(maps_, p_.parameters.weight, p_.parameters.bias, p_.parameters.mean,
                           p_.parameters.variance, x, second, y, has_relu(), p_.batch_norm_epsilon,
                           p_.tools.stream);
      return;
    }
    batch_norm_forward(maps_, channels(), x, second, y, has_relu(), p_.batch_norm_epsilon,
                       p_.gradients.mean, p_.gradients.variance, p_.tools.workspace->data(),
                       p_.tools.stream);
  }

  void backward() override {
    const GradientTo second =
        p_.second ? gradient_to(*p_.second, p_.description.second_gradient) : GradientTo{};
    const float* const y = p_.second ? p_.output.data.data() : nullptr;
    batch_norm_backward(maps_, channels(), p_.input.data.data(), y, p_.output.gradient.data(),
                        has_relu(), p_.gradients.weight, p_.gradients.bias,
                        gradient_to(p_.input, p_.description.input_gradient), second,
                        p_.tools.workspace->data(), p_.tools.stream);
  }

 private:
  bool has_relu() const { return p_.description.relu != 0; }
  BatchNormChannels channels() const {
    return {p_.parameters.weight, p_.parameters.bias, mean_.data(), inverse_deviation_.data()};
  }

  const Parts p_;
  const Maps maps_;
  DeviceArray<float> mean_, inverse_deviation_;  // of the last forward pass
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const Parts& parts) {
  return std::make_unique<BatchNorm>(parts);
}

}  // namespace dlflow::cuda
