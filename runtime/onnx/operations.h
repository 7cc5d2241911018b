#pragma once

#include <map>
#include <string>

#include "runtime/onnx/graph_values.h"

/// Reads those ONNX operations that layers of dlflow can represent; each changes the network.
/// https://onnx.ai/onnx/operators
namespace dlflow::runtime {

using Operation = void (*)(NodeReader&);

/// All operations by name. Each throws Error{InvalidInput} like NodeReader.
const std::map<std::string, Operation>& operations();

/// Throws unless sizes, strides and pads of a window are small enough for arithmetic.
void check_extent(const std::vector<int64_t>& sizes);

void check_groups(int64_t groups);

/// Transposes (rows, columns) to (columns, rows).
std::vector<float> transposed(const std::vector<float>& matrix, size_t rows, size_t columns);

// read_products.cpp
void read_conv(NodeReader& node);
void read_conv_transpose(NodeReader& node);
void read_gemm(NodeReader& node);
void read_matmul(NodeReader& node);
void read_gather(NodeReader& node);

/// Adds a constant to a layer's result (not to the input), if it can be the layer's bias.
bool add_bias(NodeReader& node, size_t layer, size_t constant);

// read_normalizations.cpp
void read_batch_norm(NodeReader& node);
void read_instance_norm(NodeReader& node);
void read_group_norm(NodeReader& node);
void read_layer_norm(NodeReader& node);
void read_rms_norm(NodeReader& node);

// read_activations.cpp
void read_relu(NodeReader& node);
void read_leaky_relu(NodeReader& node);
void read_clip(NodeReader& node);
void read_sigmoid(NodeReader& node);
void read_tanh(NodeReader& node);
void read_softmax(NodeReader& node);
void read_gelu(NodeReader& node);

/// Reads x * sigmoid(x) as SiLU, if no other node reads that sigmoid.
bool multiply_sigmoid(NodeReader& node, size_t factor, size_t sigmoid);

// read_maps.cpp
void read_pad(NodeReader& node);
void read_max_pool(NodeReader& node);
void read_average_pool(NodeReader& node);
void read_global_average_pool(NodeReader& node);
void read_reduce_mean(NodeReader& node);
void read_resize(NodeReader& node);
void read_concat(NodeReader& node);

// read_shapes.cpp, for constants, too

/// Represents the number of samples in size computations. No real size is as large.
constexpr int64_t kBatch = int64_t{1} << 62;

void read_flatten(NodeReader& node);
void read_reshape(NodeReader& node);
void read_squeeze(NodeReader& node);
void read_unsqueeze(NodeReader& node);
void read_transpose(NodeReader& node);
void read_shape(NodeReader& node);
void read_constant(NodeReader& node);
void read_cast(NodeReader& node);
void pass_on(NodeReader& node);

/// Computes the product of two sizes, if the node is one.
bool multiply_sizes(NodeReader& node);

// read_sums.cpp
void read_add(NodeReader& node);
void read_sub(NodeReader& node);
void read_mul(NodeReader& node);
void read_div(NodeReader& node);

/// Returns the first number of a constant.
float number_of(const OnnxTensor& constant);

/// Returns one number, or one per channel of (C,H,W) or feature of (F); nothing if `constant` has
/// another shape.
std::optional<std::vector<float>> per_channel(const OnnxTensor& constant, const TensorShape& shape);

}  // namespace dlflow::runtime
