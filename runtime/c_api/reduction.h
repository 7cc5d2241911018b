#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/c_api/dlflow_runtime.h"

/// The arithmetic of the C interface, for all of its types and operations.
namespace dlflow::runtime {

size_t size_of(dlflow_type type);

/// The name in messages: "fp32", "max".
std::string_view name(dlflow_type type);
std::string_view name(dlflow_op op);

/// Throws Error{InvalidInput} if there is no such type or operation, or `op` does not suit `type`.
void require_reduction(dlflow_type type, dlflow_op op);

/// output[i] = op over element i of each of the `blocks`, first to last; Avg divides by their
/// number. 16-bit floats are reduced in fp32 and rounded once. `output` may be one of the blocks.
void reduce_blocks(dlflow_type type, dlflow_op op, std::byte* output,
                   std::span<const std::byte* const> blocks, size_t count);

}  // namespace dlflow::runtime
