#pragma once

#include <cstdint>
#include <memory>

#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/handles.h"
#include "runtime/cuda/maps.h"
#include "runtime/gpu/plugin_abi.h"

namespace dlflow::cuda {

/// Factors that cuDNN reads through pointers.
constexpr float kOne = 1, kZero = 0;

/// A value that flows between operations, with room for the largest batch.
struct Value {
  int64_t channels = 0, height = 0, width = 0;
  DeviceArray<float> data, gradient;  ///< gradient: empty if not needed

  int64_t pixels() const { return height * width; }
  int64_t features() const { return channels * pixels(); }
  Maps maps(int64_t batch) const { return {batch, channels, pixels()}; }
  TensorDescriptor descriptor(int64_t batch) const { return {batch, channels, height, width}; }
};

/// Resources that operations use in turn, on one stream.
struct Tools {
  cudnnHandle_t cudnn = nullptr;
  cublasLtHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  Workspace* workspace = nullptr;
  size_t most_workspace = 0;  ///< bytes; limit of algorithms that can choose

  ScratchStream scratch_stream() const { return {stream, workspace->data()}; }
};

/// The arguments that an operation is built from; they must outlive it.
struct OperationSetup {
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

  /// The output, if its gradient has to pass a ReLU; else null.
  const float* cut_off() const { return description.relu != 0 ? output.data.data() : nullptr; }
  bool adds_input_gradient() const { return description.input_gradient == DLFLOW_GPU_ADD_TO; }
  bool has_input_gradient() const { return description.input_gradient != DLFLOW_GPU_NO_GRADIENT; }
};

/// An operation for batches of one size, with its descriptors and algorithms. All algorithms are
/// deterministic, and do not use TF32 unless requested.
class Operation {
 public:
  virtual ~Operation() = default;

  /// Computes the output from the inputs.
  virtual void forward(bool training) = 0;

  /// Computes the gradients of inputs and parameters from that of the output, which it may change.
  virtual void backward() = 0;
};

std::unique_ptr<Operation> make_convolution(const OperationSetup& setup);
std::unique_ptr<Operation> make_linear(const OperationSetup& setup);
std::unique_ptr<Operation> make_batch_norm(const OperationSetup& setup);
std::unique_ptr<Operation> make_pooling(const OperationSetup& setup);
std::unique_ptr<Operation> make_add(const OperationSetup& setup);  ///< with one input: ReLU alone

/// Makes an operation of the description's kind.
std::unique_ptr<Operation> make_operation(const OperationSetup& setup);

}  // namespace dlflow::cuda
