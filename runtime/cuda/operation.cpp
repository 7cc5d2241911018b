#include "runtime/cuda/operation.h"

#include <string>

#include "runtime/cuda/kernels.h"

namespace dlflow::cuda {
namespace {

class Add : public Operation {
 public:
  explicit Add(const Parts& parts) : p_(parts) {}

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

  const Parts p_;
};

}  // namespace

std::unique_ptr<Operation> make_add(const Parts& parts) { return std::make_unique<Add>(parts); }

std::unique_ptr<Operation> make_operation(const Parts& parts) {
  switch (DlflowGpuKind(parts.description.kind)) {
    case DLFLOW_GPU_CONVOLUTION:
      return make_convolution(parts);
    case DLFLOW_GPU_LINEAR:
      return make_linear(parts);
    case DLFLOW_GPU_BATCH_NORM:
      return make_batch_norm(parts);
    case DLFLOW_GPU_MAX_POOL:
    case DLFLOW_GPU_AVERAGE_POOL:
      return make_pooling(parts);
    case DLFLOW_GPU_ADD:
    case DLFLOW_GPU_RELU:
      return make_add(parts);
  }
  throw std::runtime_error("no operation of kind " + std::to_string(parts.description.kind));
}

}  // namespace dlflow::cuda
