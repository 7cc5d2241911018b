#pragma once

#include <string>

namespace dlflow::runtime {

/// The precision of values between layers, of their gradients, and of the factors in convolutions
/// and linear layers. Sums are fp32, and so are weights and their gradients. TensorFloat32 is of
/// GPUs alone: factors are rounded to 10 bits behind the point, values stay fp32.
enum class Compute { Float32, BFloat16, TensorFloat32 };

/// Whether this processor is faster with bf16: by AMX. AVX512_BF16 alone is not (0.63, 0.50 and
/// 0.67 times fp32 for mlp, lenet and resnet20 with oneDNN 2.6, measured without asking this).
bool has_fast_bf16();

/// What decides the bits that a network computes, besides its weights and its input: the build of
/// dlflow and of oneDNN, the instruction set that oneDNN found, whether our own loops have FMA, as
/// what oneDNN multiplies, and the threads that share a network. "dlflow 0.9.0 (12.2.0), oneDNN
/// 2.6.3, avx512_core_amx, bf16, 1 thread"; FMA and fp32 go without saying.
std::string arithmetic(Compute compute);

}  // namespace dlflow::runtime
