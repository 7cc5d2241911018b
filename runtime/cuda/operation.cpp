#include "runtime/cuda/operation.h"

#include <string>

#include "runtime/cuda/kernels.h"

namespace dlflow::cuda {
namespace {

class Add : public Operation {
 public:
  explicit Add(const OperationSetup& setup) : p_(setup) {}

  void forward(bool /*training*/) override {
    add(p_.input.data.data(), p_.second ? p_.second->data.data() : nullptr,
        {p_.output.data.data(), p_.description.relu != 0}, p_.num_outputs(), p_.tools.stream);
  }

  void backward() override {
    give(p_.input, p_.description.input_gradient);
    if (p_.second) give(*p_.second, p_.description.second_gradient);
  }

 private:
  void give(const Value& value, int32_t gradient) const {
    if (gradient == DLFLOW_GPU_NO_GRADIENT) return;
    pass_on(p_.output.gradient.data(), p_.cut_off(),
            {value.gradient.data(), gradient == DLFLOW_GPU_ADD_TO}, p_.num_outputs(),
            p_.tools.stream);
  }

  const OperationSetup p_;
};

}  // namespace

std::unique_ptr<Operation> make_add(const OperationSetup& setup) {
  return std::make_unique<Add>(setup);
}

std::unique_ptr<Operation> make_operation(const OperationSetup& setup) {
  switch (DlflowGpuKind(setup.description.kind)) {
    case DLFLOW_GPU_CONVOLUTION:
      return make_convolution(setup);
    case DLFLOW_GPU_LINEAR:
      return make_linear(setup);
    case DLFLOW_GPU_BATCH_NORM:
      return make_batch_norm(setup);
    case DLFLOW_GPU_MAX_POOL:
    case DLFLOW_GPU_AVERAGE_POOL:
      return make_pooling(setup);
    case DLFLOW_GPU_ADD:
    case DLFLOW_GPU_RELU:
      return make_add(setup);
  }
  throw std::runtime_error("no operation of kind " + std::to_string(setup.description.kind));
}

}  // namespace dlflow::cuda
