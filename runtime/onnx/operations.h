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

/// The sum of a layer's result, not of the input, or of a view of it, and a constant, if that can
/// be its bias.
bool add_bias(NodeReader& node, size_t layer, size_t constant);

// read_normalizations.cpp
void read_batch_norm(NodeReader& node);
void read_instance_norm(NodeReader& node);
void read_group_norm(NodeReader& node);
void read_layer_norm(NodeReader& node);

constexpr float kLayerEpsilon = 1e-5f;  // of dlflow's normalisations

void require_epsilon(float epsilon);
/// \param shape  of one sample
void require_last_dimension(const TensorShape& shape, const std::vector<int64_t>& axes,
                            const std::string& layer);
void require_size(const ImportedTensor& tensor, int64_t size);

/// The product or sum of a layer's result, not of the input, and a constant, if the layer is a
/// group normalisation that was put together, and the constant can be its weight or bias.
bool complete_group_norm(NodeReader& node, size_t layer, size_t constant, const char* tensor);

// read_rms_norm.cpp
void read_rms_normalization(NodeReader& node);
void read_pow(NodeReader& node);
void read_sqrt(NodeReader& node);
void read_reciprocal(NodeReader& node);

/// What means, sums, quotients and products do to a value on its way to RMS normalisation.
bool average_squares(NodeReader& node, const std::vector<int64_t>& axes);
bool shift_mean_square(NodeReader& node, size_t value, size_t constant);
bool invert_root(NodeReader& node);
bool divide_by_root(NodeReader& node);
bool multiply_rms_norm(NodeReader& node, size_t a, size_t b);

/// The product of a layer's result, not of the input, and a constant, if the layer is an RMS
/// normalisation that was put together, and the constant can be its weight.
bool complete_rms_norm(NodeReader& node, size_t layer, size_t constant);

// read_adaptive_pool.cpp
/// What a product with a constant, and an order of dimensions, do on the way to adaptive_avg_pool.
bool average_columns(NodeReader& node);
bool turn_means(NodeReader& node);

// read_views.cpp
void read_slice(NodeReader& node);
void read_split(NodeReader& node);
void read_expand(NodeReader& node);

/// Whether an input is a result (B,T,F), or a view of one.
bool is_sequence(NodeReader& node, size_t input);
/// The view that such an input is. Refuses others.
View view_at(NodeReader& node, size_t input);
/// Gives a view, or the result itself if it is all of it.
void give_view(NodeReader& node, View view, size_t output = 0);

void choose_part(NodeReader& node);
void squeeze_view(NodeReader& node, const std::vector<int64_t>& axes);
void unsqueeze_view(NodeReader& node, std::vector<int64_t> axes);

// read_constants.cpp
void read_constant_operation(NodeReader& node);
void read_constant_of_shape(NodeReader& node);
void read_trilu(NodeReader& node);

/// The sum, product and the like of two constants, if it is one.
bool compute_constants(NodeReader& node);
void root_of_constant(NodeReader& node);
void cast_constant(NodeReader& node);
void choose_constants(NodeReader& node);
void slice_constant(NodeReader& node, const std::vector<int64_t>& begins,
                    const std::vector<int64_t>& ends, const std::vector<int64_t>& axes);
/// A constant of one number, `sizes` times.
void fill_constant(NodeReader& node, const OnnxTensor& number, std::vector<int64_t> sizes);

// read_attention.cpp
void read_where(NodeReader& node);
void read_is_nan(NodeReader& node);

/// What products, masks and softmax do to values on the way to attention.
bool multiply_results(NodeReader& node);
bool scale_scores(NodeReader& node, size_t value, float factor);
bool add_mask(NodeReader& node, size_t value, size_t constant);
bool soften_scores(NodeReader& node);

// read_rotary.cpp
/// What products with cosines and sines do to halves of heads, then a sum or difference of two of
/// these, and then both halves together.
bool rotate_half(NodeReader& node, size_t value, size_t constant);
bool combine_halves(NodeReader& node);
bool concat_halves(NodeReader& node);

/// The same where files put whole heads together: heads * cosines + swapped heads * sines.
void read_neg(NodeReader& node);
bool swap_halves(NodeReader& node);

// read_texts.cpp
void read_less(NodeReader& node);
void read_reduce_sum(NodeReader& node);

/// Of the lengths of texts, or of what tells which positions have a token.
bool reshape_of_texts(NodeReader& node, const std::vector<int64_t>& sizes);
/// What Where, means and quotients do to a result on its way to mean_pool.
bool keep_tokens(NodeReader& node);
bool divide_by_lengths(NodeReader& node);
bool average_positions(NodeReader& node, const std::vector<int64_t>& axes);

// read_activations.cpp
void read_relu(NodeReader& node);
void read_leaky_relu(NodeReader& node);
void read_clip(NodeReader& node);
void read_sigmoid(NodeReader& node);
void read_tanh(NodeReader& node);
void read_softmax(NodeReader& node);
void read_gelu(NodeReader& node);
void read_erf(NodeReader& node);

/// The product of two values, if it is part of SiLU or GELU.
bool multiply_activations(NodeReader& node, size_t a, size_t b);
/// The sum or product of a value on its way to GELU and a constant.
bool add_to_gelu(NodeReader& node, size_t value, size_t constant);
bool multiply_gelu(NodeReader& node, size_t value, size_t constant);

// read_maps.cpp
void read_pad(NodeReader& node);
void read_max_pool(NodeReader& node);
void read_average_pool(NodeReader& node);
void read_global_average_pool(NodeReader& node);
void read_reduce_mean(NodeReader& node);
void read_resize(NodeReader& node);
void read_concat(NodeReader& node);

// read_shapes.cpp: those of constants, too
void read_flatten(NodeReader& node);
void read_reshape(NodeReader& node);
void read_squeeze(NodeReader& node);
void read_unsqueeze(NodeReader& node);
void read_transpose(NodeReader& node);
void read_shape(NodeReader& node);
void read_constant(NodeReader& node);
void read_cast(NodeReader& node);
void pass_on(NodeReader& node);

// read_sums.cpp
void read_add(NodeReader& node);
void read_sub(NodeReader& node);
void read_mul(NodeReader& node);
void read_div(NodeReader& node);

/// The first number of a constant that has one.
float number_of(const OnnxTensor& constant);
bool is_number(const OnnxTensor& constant, float number);

/// One number, or one for each channel of (C,H,W) or feature of (F); nothing if `constant` is of
/// another shape.
std::optional<std::vector<float>> per_channel(const OnnxTensor& constant, const TensorShape& shape);

}  // namespace dlflow::runtime
