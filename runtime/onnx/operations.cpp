#include "runtime/onnx/operations.h"

namespace dlflow::runtime {

const std::map<std::string, Operation>& operations() {
  static const std::map<std::string, Operation> all = {
      {"Add", read_add},
      {"AveragePool", read_average_pool},
      {"BatchNormalization", read_batch_norm},
      {"Cast", read_cast},
      {"Clip", read_clip},
      {"Concat", read_concat},
      {"Constant", read_constant},
      {"Conv", read_conv},
      {"ConvTranspose", read_conv_transpose},
      {"Div", read_div},
      {"Dropout", pass_on},
      {"Flatten", read_flatten},
      {"Gather", read_gather},
      {"Gelu", read_gelu},
      {"Gemm", read_gemm},
      {"GlobalAveragePool", read_global_average_pool},
      {"GroupNormalization", read_group_norm},
      {"Identity", pass_on},
      {"InstanceNormalization", read_instance_norm},
      {"LayerNormalization", read_layer_norm},
      {"LeakyRelu", read_leaky_relu},
      {"MatMul", read_matmul},
      {"MaxPool", read_max_pool},
      {"Mul", read_mul},
      {"Pad", read_pad},
      {"ReduceMean", read_reduce_mean},
      {"RMSNormalization", read_rms_norm},
      {"Relu", read_relu},
      {"Reshape", read_reshape},
      {"Resize", read_resize},
      {"Shape", read_shape},
      {"Sigmoid", read_sigmoid},
      {"Softmax", read_softmax},
      {"Squeeze", read_squeeze},
      {"Sub", read_sub},
      {"Tanh", read_tanh},
      {"Transpose", read_transpose},
      {"Unsqueeze", read_unsqueeze},
      {"Upsample", read_resize}};
  return all;
}

std::vector<float> transposed(const std::vector<float>& matrix, size_t rows, size_t columns) {
  std::vector<float> result(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = matrix[i * columns + j];
  }
  return result;
}

float number_of(const OnnxTensor& constant) {
  if (!constant.floats.empty()) return constant.floats[0];
  if (constant.integers[0] >= kBatch) refuse("it computes with the number of samples");
  return float(constant.integers[0]);
}

void check_groups(int64_t groups) {
  if (groups < 1 || groups > 1'000'000) refuse("its groups are not from 1 to 1,000,000");
}

void check_extent(const std::vector<int64_t>& sizes) {
  for (const int64_t size : sizes) {
    if (size < 0 || size > 1'000'000) refuse("its sizes are not from 0 to 1,000,000");
  }
}

}  // namespace dlflow::runtime
