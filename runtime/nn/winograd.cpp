#include "runtime/nn/winograd.h"

#include <omp.h>

#include <algorithm>

#include "runtime/nn/kernel_convolution.h"
#include "runtime/nn/winograd_kernel.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

/// The transforms cost more than they save in tiles of which less than half is there, and where few
/// tiles share the transformed weights, which many channels find in no cache.
bool pays(const TensorShape& in, const TensorShape& out, int64_t batch) {
  const auto tiles = [](int64_t pixels) { return (pixels + 3) / 4; };
  const int64_t tiles_in_map = tiles(out[1]) * tiles(out[2]);
  return 2 * out[1] * out[2] > 16 * tiles_in_map &&
         batch * tiles_in_map >= std::max({int64_t{16}, in[0] / 16, out[0] / 16});
}

Registers registers_here() {
  const bool may_be_wide = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return may_be_wide && has(Registers::Avx512) ? Registers::Avx512 : Registers::Avx2;
}

memory::desc winograd_format(const Layer& layer, int64_t channels) {
  return {{layer.units, channels, 3, 3}, memory::data_type::f32, memory::format_tag::OIhw16i16o};
}

class WinogradConvolution final : public KernelConvolution {
 public:
  WinogradConvolution(const Builder& builder, const Layer& layer, bool relu, Value& input,
                      Value& result)
      : KernelConvolution(builder, layer, relu, winograd_format(layer, input.shape[0]), input,
                          result),
        shape_{x_map(), y_map(), layer.padding.height, layer.padding.width, registers_here()} {}

 private:
  void run_forward(const float* x, const float* weight, const float* bias, bool relu,
                   float* y) const override {
    winograd_forward(shape_, x, weight, bias, relu, y);
  }
  void run_backward_data(const float* dy, const float* weight, float* dx) const override {
    winograd_backward_data(shape_, dy, weight, dx);
  }
  void run_backward_weights(const float* x, const float* dy, float* dweight,
                            float* dbias) const override {
    winograd_backward_weights(shape_, x, dy, dweight, dbias);
  }

  WinogradShape shape_;
};

}  // namespace

bool suits_winograd(const Builder& builder, const Layer& layer, const TensorShape& input) {
  // oneDNN takes all threads of a rank.
  const bool can = builder.compute == Compute::Float32 && omp_get_max_threads() == 1 &&
                   dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx2 && has(Registers::Avx2) &&
                   layer.kernel == Extent(3) && layer.stride == Extent(1) &&
                   layer.dilation == Extent(1) && layer.groups == 1 && layer.padding.height <= 2 &&
                   layer.padding.width <= 2 && input[0] % 16 == 0 && layer.units % 16 == 0;
  return can && pays(input, layer.shape, builder.batch);
}

Value& add_winograd(Assembly& assembly, const Place& place) {
  return assembly.add<WinogradConvolution>(place.layer, place.relu, assembly.input(place));
}

}  // namespace dlflow::runtime
