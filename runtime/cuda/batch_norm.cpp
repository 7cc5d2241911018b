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
  explicit BatchNorm(const OperationSetup& setup)
      : p_(setup),
        maps_(setup.input.maps(setup.batch)),
        mean_(size_t(setup.input.channels)),
        inverse_deviation_(size_t(setup.input.channels)) {
    p_.tools.workspace->reserve(batch_norm_scratch(maps_));
  }

  void forward(bool training) override {
    const BatchNormForward pass = {.x = p_.input.data.data(),
                                   .second = p_.second ? p_.second->data.data() : nullptr,
                                   .output = {p_.output.data.data(), has_relu()},
                                   .epsilon = p_.batch_norm_epsilon};
    if (!training) return batch_norm_inference(maps_, p_.parameters, pass, p_.tools.stream);
    batch_norm_forward(maps_, channels(), pass, {p_.gradients.mean, p_.gradients.variance},
                       p_.tools.scratch_stream());
  }

  void backward() override {
    const GradientTo second =
        p_.second ? gradient_to(*p_.second, p_.description.second_gradient) : GradientTo{};
    batch_norm_backward(maps_, channels(),
                        {.x = p_.input.data.data(),
                         .y = p_.second ? p_.output.data.data() : nullptr,
                         .dy = p_.output.gradient.data(),
                         .relu = has_relu()},
                        {.weight = p_.gradients.weight,
                         .bias = p_.gradients.bias,
                         .input = gradient_to(p_.input, p_.description.input_gradient),
                         .second = second},
                        p_.tools.scratch_stream());
  }

 private:
  bool has_relu() const { return p_.description.relu != 0; }
  BatchNormChannels channels() const {
    return {p_.parameters.weight, p_.parameters.bias, mean_.data(), inverse_deviation_.data()};
  }

  const OperationSetup p_;
  const Maps maps_;
  DeviceArray<float> mean_, inverse_deviation_;  // of the last forward pass
};

}  // namespace

std::unique_ptr<Operation> make_batch_norm(const OperationSetup& setup) {
  return std::make_unique<BatchNorm>(setup);
}

}  // namespace dlflow::cuda
