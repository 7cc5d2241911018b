#pragma once

#include <map>
#include <string>

#include "runtime/onnx/graph_values.h"

/// ONNX's operations, as far as layers of dlflow can be made of them: what each does to a network.
/// https://onnx.ai/onnx/operators
namespace dlflow::runtime {

using Operation = void (*)(NodeReader&);

/// By name. Each throws Error{InvalidInput}, as NodeReader does.
const std::map<std::string, Operation>& operations();

/// Sizes, strides and pads of a window are numbers that can be computed with.
void check_extent(const std::vector<int64_t>& sizes);

void check_groups(int64_t groups);

/// (rows, columns) as (columns, rows).
std::vector<float> transposed(const std::vector<float>& matrix, size_t rows, size_t columns);

// read_products.cpp
void read_conv(NodeReader& node);
void read_conv_transpose(NodeReader& node);
void read_gemm(NodeReader& node);
void read_matmul(NodeReader& node);
void read_gather(NodeReader& node);

/// The sum of a layer's result, not of the input, and a constant, if that can be its bias.
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

/// x * sigmoid(x), which is SiLU if no other node reads that sigmoid.
bool multiply_sigmoid(NodeReader& node, size_t factor, size_t sigmoid);

// read_maps.cpp
void read_pad(NodeReader& node);
void read_max_pool(NodeReader& node);
void read_average_pool(NodeReader& node);
void read_global_average_pool(NodeReader& node);
void read_reduce_mean(NodeReader& node);
void read_resize(NodeReader& node);
void read_concat(NodeReader& node);

// read_shapes.cpp: those of constants, too

/// Stands for the number of samples where a file computes sizes. No size reaches it.
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

/// The product of two sizes, if it is one.
bool multiply_sizes(NodeReader& node);

// read_sums.cpp
void read_add(NodeReader& node);
void read_sub(NodeReader& node);
void read_mul(NodeReader& node);
void read_div(NodeReader& node);

/// The first number of a constant that has one.
float number_of(const OnnxTensor& constant);

/// One number, or one for each channel of (C,H,W) or feature of (F); nothing if `constant` is of
/// another shape.
std::optional<std::vector<float>> per_channel(const OnnxTensor& constant, const TensorShape& shape);

}  // namespace dlflow::runtime
