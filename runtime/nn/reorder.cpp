#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

class Reorder : public Operation {
 public:
  Reorder(const Builder& builder, const memory::desc& format, const memory::desc& described,
          Value& input, Value& result)
      : x_(input), y_(result) {
    to_ = builder.make(format);
    y_.data = described == format ? to_ : builder.arena.view(to_, described);
    y_.needs_gradient = x_.needs_gradient;
    builder.read(x_.data);
    forward_ = dnnl::reorder({builder.engine(), x_.desc(), builder.engine(), format});
  }

  void forward(dnnl::stream& stream) override { forward_.execute(stream, x_.data, to_); }

  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, false);
    const bool same = y_.desc() == to_.get_desc();
    from_ = same ? dy_.sum() : builder.arena.view(dy_.sum(), to_.get_desc());
    dx_ = builder.make(x_.desc());
    x_.gradients.push_back(dx_);
    backward_ = dnnl::reorder({builder.engine(), from_.get_desc(), builder.engine(), x_.desc()});
  }

  void backward(dnnl::stream& stream) override {
    dy_.run();
    backward_.execute(stream, from_, dx_);
  }

 private:
  Value& x_;
  Value& y_;
  memory to_, from_, dx_;
  dnnl::reorder forward_, backward_;
  GradientSum dy_;
};

}  // namespace

std::unique_ptr<Operation> make_reorder(const Builder& builder, const memory::desc& format,
                                        const memory::desc& described, Value& input,
                                        Value& result) {
  return std::make_unique<Reorder>(builder, format, described, input, result);
}

/// Images arrive in plain order: their numbers already are rows.
Value& add_flatten(Assembly& assembly, const LayerNode& node) {
  if (assembly.reads_images(node)) {
    return assembly.rows(assembly.images_as(node.layer.shape));
  }
  Value& x = assembly.input(node);
  if (x.shape.size() == 1) return assembly.rows(x);
  const bool stays = x.shape.size() == 3 && assembly.read_by_linear_only(node);
  return stays ? x : assembly.flat(x, x.shape, node.layer.shape);
}

}  // namespace dlflow::runtime
