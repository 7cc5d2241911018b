#pragma once

#include "runtime/nn/lanes.h"

/// The transforms of Winograd's algorithm F(4x4, 3x3), for as many channels at once as a register
/// (lanes.h) holds.
namespace dlflow::runtime {

/// A tile d of 6 x 6 inputs and the weights g of 3 x 3 give 4 x 4 results:
///
///   y = A' [(G g G') * (B' d B)] A
///
/// where * multiplies elementwise: 36 multiplications for each pair of channels, instead of 144 in
/// direct convolution. For all tiles and channels this is 36 matrix products, (tiles, channels of
/// x) by (channels of x, channels of y). The gradient of the weights is
///
///   dg = G' [(A dy A') * (B' d B)] G
///
/// and the gradient of x is a convolution of dy with the weights rotated by 180 degrees.

constexpr int64_t kPoints = 36;  ///< in a transformed tile

/// One dimension of each transform, on numbers that are `stride` apart.
template <typename R>
DLFLOW_INLINE void input_transform(const R* d, int64_t stride, R* into) {  // B'
  const R d0 = d[0], d1 = d[stride], d2 = d[2 * stride], d3 = d[3 * stride], d4 = d[4 * stride],
          d5 = d[5 * stride];
  const R even = d4 - 4 * d2, odd = d3 - 4 * d1, near = d4 - d2, twice = 2 * (d3 - d1);
  into[0] = 4 * d0 - 5 * d2 + d4;
  into[1] = even + odd;
  into[2] = even - odd;
  into[3] = near + twice;
  into[4] = near - twice;
  into[5] = 4 * d1 - 5 * d3 + d5;
}

template <typename R>
DLFLOW_INLINE void output_transform(const R* m, int64_t stride, R* into) {  // A'
  const R sum = m[stride] + m[2 * stride], difference = m[stride] - m[2 * stride];
  const R far = m[3 * stride] + m[4 * stride], slope = m[3 * stride] - m[4 * stride];
  into[0] = m[0] + sum + far;
  into[1] = difference + 2 * slope;
  into[2] = sum + 4 * far;
  into[3] = difference + 8 * slope + m[5 * stride];
}

template <typename R>
DLFLOW_INLINE void gradient_transform(const R* y, int64_t stride, R* into) {  // A
  const R y0 = y[0], y1 = y[stride], y2 = y[2 * stride], y3 = y[3 * stride];
  const R even = y0 + y2, odd = y1 + y3, far_even = y0 + 4 * y2, far_odd = 2 * y1 + 8 * y3;
  into[0] = y0;
  into[1] = even + odd;
  into[2] = even - odd;
  into[3] = far_even + far_odd;
  into[4] = far_even - far_odd;
  into[5] = y3;
}

template <typename R>
DLFLOW_INLINE void weight_transform(const R* g, int64_t stride, R* into) {  // G
  const R g0 = g[0], g1 = g[stride], g2 = g[2 * stride];
  const R near = (g0 + g2) * (-1.0f / 6), far = g0 * (1.0f / 24) + g2 * (1.0f / 6);
  into[0] = g0 * 0.25f;
  into[1] = near - g1 * (1.0f / 6);
  into[2] = near + g1 * (1.0f / 6);
  into[3] = far + g1 * (1.0f / 12);
  into[4] = far - g1 * (1.0f / 12);
  into[5] = g2;
}

template <typename R>
DLFLOW_INLINE void weight_gradient_transform(const R* m, int64_t stride, R* into) {  // G'
  const R near = (m[stride] + m[2 * stride]) * (-1.0f / 6);
  const R far = m[3 * stride] + m[4 * stride];
  into[0] = m[0] * 0.25f + near + far * (1.0f / 24);
  into[1] =
      (m[2 * stride] - m[stride]) * (1.0f / 6) + (m[3 * stride] - m[4 * stride]) * (1.0f / 12);
  into[2] = near + far * (1.0f / 6) + m[5 * stride];
}

/// Transforms `From` numbers to 6 in both dimensions, and calls write(point, register).
template <int From, typename R, typename Transform, typename Write>
DLFLOW_INLINE void to_points(const R* numbers, Transform transform, Write write) {
  R columns[From * 6];
  for (int i = 0; i < From; ++i) transform(numbers + i, From, columns + i * 6);
  for (int row = 0; row < 6; ++row) {
    R points[6];
    transform(columns + row, 6, points);
    for (int i = 0; i < 6; ++i) write(row * 6 + i, points[i]);
  }
}

/// Transforms 6 numbers to `To` in both dimensions, and calls write(row, column, register).
template <int To, typename R, typename Transform, typename Write>
DLFLOW_INLINE void from_points(const R* points, Transform transform, Write write) {
  R columns[6 * To];
  for (int i = 0; i < 6; ++i) transform(points + i, 6, columns + i * To);
  for (int row = 0; row < To; ++row) {
    R numbers[To];
    transform(columns + row, To, numbers);
    for (int i = 0; i < To; ++i) write(row, i, numbers[i]);
  }
}

}  // namespace dlflow::runtime
