#pragma once

#include <string>

namespace dlflow::runtime {

/// The precision of values between layers, of their gradients, and of the factors in convolutions
/// and linear layers. Sums, weights and their gradients are fp32. TensorFloat32 exists only on
/// GPUs: factors are rounded to 10-bit mantissas, values stay fp32.
enum class Compute { Float32, BFloat16, TensorFloat32 };

/// Whether this processor computes faster in bf16, which needs AMX: with AVX512_BF16 alone, the
/// speed is 0.63, 0.50 and 0.67 times that of fp32 (mlp, lenet and resnet20, oneDNN 2.6).
bool has_fast_bf16();

/// Describes everything but weights and input that determines the bits of a result: the builds of
/// dlflow and oneDNN, the instruction set of oneDNN, the FMA of our own loops, the type of factors,
/// and the threads that share a network. "dlflow 0.9.0 (12.2.0), oneDNN 2.6.3, avx512_core_amx,
/// bf16, 1 thread"; FMA and fp32 are not mentioned.
std::string arithmetic(Compute compute);

}  // namespace dlflow::runtime
