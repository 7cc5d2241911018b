#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/handles.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::cuda {

/// The factors of cuDNN's sums, which it reads through pointers.
constexpr float kOne = 1, kZero = 0;

/// A value that flows between operations, for as many samples as a batch may have.
struct Value {
  int64_t channels = 0, height = 0, width = 0;
  DeviceArray<float> data, gradient;  ///< gradient: empty if nobody needs it

  int64_t pixels() const { return height * width; }
  int64_t features() const { return channels * pixels(); }
  TensorDescriptor descriptor(int64_t batch) const { return {batch, channels, height, width}; }
};

/// The resources that operations share, one after the other on one stream.
struct Tools {
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  Workspace* workspace = nullptr;
  size_t most_workspace = 0;  ///< bytes, for an algorithm that may choose how much it takes
};

/// Where an operation's parameters and their gradients lie on the device; null: there are none.
/// Statistics of a batch go where the gradients of mean and variance would be.
struct Parameters {
  float *weight = nullptr, *bias = nullptr, *mean = nullptr, *variance = nullptr;
};

/// The parts that an operation is built from; all of them outlive it.
struct Parts {
  const DlflowGpuOperation& description;
  int64_t batch = 0;
  float batch_norm_epsilon = 0;
  bool tensor_float32 = false;  ///< products may round their factors
  Tools tools;
  const Value& input;
  const Value* second = nullptr;
  const Value& output;
  Parameters parameters, gradients;

  int64_t num_outputs() const { return batch * output.features(); }

  /// The output if it went through ReLU, which its gradient has to pass; else null.
  const float* cut_off() const { return description.relu != 0 ? output.data.data() : nullptr; }
  bool adds_input_gradient() const { return description.input_gradient == DLFLOW_GPU_ADD_TO; }
  bool has_input_gradient() const { return description.input_gradient != DLFLOW_GPU_NO_GRADIENT; }
};

/// An operation for batches of one size: descriptors are set and algorithms chosen. Only those that
/// compute the same bits every time, without TF32 unless it is asked for.
class Operation {
 public:
  virtual ~Operation() = default;

  /// The output from the inputs.
  virtual void forward(bool training) = 0;

  /// The gradients of inputs and parameters from that of the output, which may be changed.
  virtual void backward() = 0;
};

std::unique_ptr<Operation> make_convolution(const Parts& parts);
std::unique_ptr<Operation> make_linear(const Parts& parts);
std::unique_ptr<Operation> make_batch_norm(const Parts& parts);
std::unique_ptr<Operation> make_pooling(const Parts& parts);
std::unique_ptr<Operation> make_add(const Parts& parts);  ///< of one input: ReLU alone

/// Of the kind that the description says.
std::unique_ptr<Operation> make_operation(const Parts& parts);

}  // namespace dlflow::cuda
