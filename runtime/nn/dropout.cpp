#include <algorithm>

#include "runtime/nn/assembly.h"
#include "runtime/nn/map_kernels.h"

namespace dlflow::runtime {
namespace {

/// Dropout of single numbers, or of whole samples (StochasticDepth). Kept numbers are divided by
/// the probability of being kept, so inference needs no scaling.
class Dropout : public UnaryOperation {
 public:
  Dropout(const Builder& builder, const Layer& layer, Value& input, Value& result)
      : UnaryOperation(builder, input, result, input.shape, input.desc()),
        layer_(layer),
        draws_(*builder.draws),
        batch_(builder.batch),
        per_sample_(num_numbers(input.shape)),
        keeps_(size_t(batch_ * per_sample_)) {}

  void forward(dnnl::stream& stream) override {
    stream.wait();
    draw();
    apply(x_.numbers(), y_.numbers());
  }

  void prepare_backward(const Builder& builder) override { share_gradient(builder, false); }

 private:
  void pass_back(dnnl::stream&) override { apply(numbers(dy()), numbers(dy())); }

  void draw() {
    const LayerDraws draws(draws_, layer_.name);
    const bool whole = layer_.kind == LayerKind::StochasticDepth;
    for (int64_t b = 0; b < batch_; ++b) {
      const std::span<uint8_t> own =
          std::span(keeps_).subspan(size_t(b * per_sample_), size_t(per_sample_));
      const uint32_t sample = draws_.samples.empty() ? uint32_t(b) : draws_.samples[size_t(b)];
      draws.draw(sample, layer_.rate, whole ? own.first(1) : own);
      if (whole) std::ranges::fill(own, own[0]);
    }
  }

  void apply(Numbers from, Numbers to) const {
    drop(map_geometry(x_), {keeps_.data(), dimensions(x_.desc())[1], float(1 / (1 - layer_.rate))},
         from, to);
  }

  const Layer& layer_;
  const Draws& draws_;
  int64_t batch_, per_sample_;
  std::vector<uint8_t> keeps_;  // of the last forward pass, in the order of LayerDraws
};

Value& add_drop(Assembly& assembly, const LayerNode& node) {
  Value& x = assembly.input(node);
  if (!assembly.next().training || node.layer.rate == 0) return x;
  return assembly.add<Dropout>(node.layer, x);
}

}  // namespace

Value& add_dropout(Assembly& assembly, const LayerNode& node) { return add_drop(assembly, node); }

Value& add_stochastic_depth(Assembly& assembly, const LayerNode& node) {
  return add_drop(assembly, node);
}

}  // namespace dlflow::runtime
