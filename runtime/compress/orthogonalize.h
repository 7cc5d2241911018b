#pragma once

#include <cstddef>
#include <span>

namespace dlflow::runtime {

/// Makes the columns of a matrix orthonormal by modified Gram-Schmidt, one after the other, in
/// double precision; a linearly dependent column becomes zero. Equal bits give equal bits.
/// \param columns  (num_columns, rows), one column after the other.
void orthogonalize(std::span<float> columns, size_t rows);

}  // namespace dlflow::runtime
