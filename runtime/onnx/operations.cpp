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
      {"ConstantOfShape", read_constant_of_shape},
      {"Conv", read_conv},
      {"ConvTranspose", read_conv_transpose},
      {"Div", read_div},
      {"Dropout", pass_on},
      {"Equal", read_constant_operation},
      {"Erf", read_erf},
      {"Expand", read_expand},
      {"Flatten", read_flatten},
      {"Gather", read_gather},
      {"Gelu", read_gelu},
      {"Gemm", read_gemm},
      {"GlobalAveragePool", read_global_average_pool},
      {"GroupNormalization", read_group_norm},
      {"Identity", pass_on},
      {"IsNaN", read_is_nan},
      {"InstanceNormalization", read_instance_norm},
      {"LayerNormalization", read_layer_norm},
      {"LeakyRelu", read_leaky_relu},
      {"Less", read_less},
      {"MatMul", read_matmul},
      {"MaxPool", read_max_pool},
      {"Mod", read_constant_operation},
      {"Mul", read_mul},
      {"Neg", read_neg},
      {"Pad", read_pad},
      {"ReduceMean", read_reduce_mean},
      {"ReduceSum", read_reduce_sum},
      {"Pow", read_pow},
      {"RMSNormalization", read_rms_normalization},
      {"Reciprocal", read_reciprocal},
      {"Relu", read_relu},
      {"Reshape", read_reshape},
      {"Resize", read_resize},
      {"Shape", read_shape},
      {"Sigmoid", read_sigmoid},
      {"Slice", read_slice},
      {"Softmax", read_softmax},
      {"Split", read_split},
      {"Sqrt", read_sqrt},
      {"Squeeze", read_squeeze},
      {"Sub", read_sub},
      {"Tanh", read_tanh},
      {"Transpose", read_transpose},
      {"Trilu", read_trilu},
      {"Unsqueeze", read_unsqueeze},
      {"Upsample", read_resize},
      {"Where", read_where}};
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

bool is_number(const OnnxTensor& constant, float number) {
  return constant.size() == 1 && number_of(constant) == number;
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
