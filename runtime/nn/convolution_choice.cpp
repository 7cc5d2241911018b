#include "runtime/nn/convolution_choice.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/winograd_kernel.h"

namespace dlflow::runtime {
namespace {

/// The transforms cost more than they save if less than half of the tiles' area is used, or if few
/// tiles share the transformed weights, which with many channels fit in no cache.
bool pays(const TensorShape& in, const TensorShape& out, int64_t batch) {
  const auto tiles = [](int64_t pixels) { return (pixels + 3) / 4; };
  const int64_t tiles_in_map = tiles(out[1]) * tiles(out[2]);
  return 2 * out[1] * out[2] > 16 * tiles_in_map &&
         batch * tiles_in_map >= std::max({int64_t{16}, in[0] / 16, out[0] / 16});
}

}  // namespace

bool can_use_winograd(Compute compute, const Layer& layer, const TensorShape& input) {
  // oneDNN uses all threads of a rank.
  return compute == Compute::Float32 && omp_get_max_threads() == 1 &&
         dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx2 && has(Registers::Avx2) &&
         layer.kind == LayerKind::Conv2d && has_winograd_form(layer) && layer.padding.height <= 2 &&
         layer.padding.width <= 2 && input[0] % 16 == 0 && layer.units % 16 == 0;
}

bool uses_winograd(Compute compute, const Layer& layer, const TensorShape& input, int64_t batch) {
  if (layer.algorithm == ConvolutionAlgorithm::Direct) return false;
  return can_use_winograd(compute, layer, input) &&
         (layer.algorithm == ConvolutionAlgorithm::Winograd || pays(input, layer.shape, batch));
}

}  // namespace dlflow::runtime
