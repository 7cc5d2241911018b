#pragma once

#include <memory>
#include <string>

#include "runtime/nn/operation.h"

namespace dlflow::runtime {

/// A linear layer over the positions of sequences in fp32: y (R,O) = x (R,F) w' + b, where R are
/// the rows of all samples. Each of its three products is one of matrices in plain order. For 2,000
/// rows oneDNN's own passes of an inner product are up to 1.8 times slower (weight's gradient) and
/// 1.2 times slower (data), and want weights in a format of their own.
/// \param weight  the name of the parameter, (O,F)
std::unique_ptr<Operation> make_linear_rows(const Builder& builder, const Layer& layer,
                                            const std::string& weight, bool relu, Value& input,
                                            Value& result);

/// Whether such a layer can be what reads `input`.
bool is_linear_over_rows(const Builder& builder, const Layer& layer, const Value& input);

}  // namespace dlflow::runtime
