#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/c_api/dlflow_runtime.h"

/// The arithmetic of the C interface: every type and operation that it has.
namespace dlflow::runtime {

size_t size_of(dlflow_type type);

/// As people write it: "fp32", "max".
std::string_view name(dlflow_type type);
std::string_view name(dlflow_op op);

/// Throws Error{InvalidInput} if there is no such type or operation, or `op` is none of `type`.
void require_reduction(dlflow_type type, dlflow_op op);

/// output[i] = op over the `blocks` of block[i], from the first to the last; Avg divides by their
/// number. 16-bit floats are reduced as fp32 and rounded once. `output` may be a block.
void reduce_blocks(dlflow_type type, dlflow_op op, std::byte* output,
                   std::span<const std::byte* const> blocks, size_t count);

}  // namespace dlflow::runtime
