#include "runtime/cuda/kernels.h"
#include "runtime/cuda/operation.h"
#include "runtime/cuda/pooling_kernels.h"

namespace dlflow::cuda {
namespace {

class Pooling : public Operation {
 public:
  explicit Pooling(const OperationSetup& setup)
      : p_(setup),
        x_(setup.input.descriptor(setup.batch)),
        y_(setup.output.descriptor(setup.batch)) {
    const DlflowGpuOperation& d = p_.description;
    const cudnnPoolingMode_t mode = d.kind == DLFLOW_GPU_MAX_POOL
                                        ? CUDNN_POOLING_MAX_DETERMINISTIC
                                        : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    check(cudnnSetPooling2dDescriptor(window_.get(), mode, CUDNN_PROPAGATE_NAN, d.kernel_height,
                                      d.kernel_width, d.padding, d.padding, d.stride, d.stride),
          "cudnnSetPooling2dDescriptor");
  }

  void forward(bool /*training*/) override {
    float* y = p_.output.data.data();
    check(cudnnPoolingForward(p_.tools.cudnn, window_.get(), &kOne, x_.get(), p_.input.data.data(),
                              &kZero, y_.get(), y),
          "cudnnPoolingForward");
    if (p_.description.relu) add(y, nullptr, {y, true}, p_.num_outputs(), p_.tools.stream);
  }

  /// ReLU may have changed y since the forward pass, but only where dy is then 0.
  void backward() override {
    if (!p_.has_input_gradient()) return;
    if (const float* y = p_.cut_off()) {
      mask_gradient(p_.output.gradient.data(), y, p_.num_outputs(), p_.tools.stream);
    }
    if (p_.description.kind == DLFLOW_GPU_AVERAGE_POOL) {
      average_pool_gradient(maps(), p_.output.gradient.data(), p_.input.gradient.data(),
                            p_.adds_input_gradient(), p_.tools.stream);
      return;
    }
    check(cudnnPoolingBackward(p_.tools.cudnn, window_.get(), &kOne, y_.get(),
                               p_.output.data.data(), y_.get(), p_.output.gradient.data(), x_.get(),
                               p_.input.data.data(), p_.adds_input_gradient() ? &kOne : &kZero,
                               x_.get(), p_.input.gradient.data()),
          "cudnnPoolingBackward");
  }

 private:
  PooledMaps maps() const {
    const DlflowGpuOperation& d = p_.description;
    const Value &x = p_.input, &y = p_.output;
    return {p_.batch * x.channels, int(x.height),  int(x.width), int(y.height), int(y.width),
            d.kernel_height,       d.kernel_width, d.stride,     d.padding};
  }

  const OperationSetup p_;
  TensorDescriptor x_, y_;
  PoolingDescriptor window_;
};

}  // namespace

std::unique_ptr<Operation> make_pooling(const OperationSetup& setup) {
  return std::make_unique<Pooling>(setup);
}

}  // namespace dlflow::cuda
