#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

class Reorder : public UnaryOperation {
 public:
  Reorder(const Builder& builder, const memory::desc& format, const memory::desc& described,
          Value& input, Value& result)
      : UnaryOperation(builder, input, result, result.shape, format), to_(y_.data) {
    if (described != format) y_.data = builder.arena.view(to_, described);
    forward_ = dnnl::reorder({builder.engine(), x_.desc(), builder.engine(), format});
  }

  void forward(dnnl::stream& stream) override { forward_.execute(stream, x_.data, to_); }

  void prepare_backward(const Builder& builder) override {
    UnaryOperation::prepare_backward(builder);
    const bool same = y_.desc() == to_.get_desc();
    from_ = same ? dy() : builder.arena.view(dy(), to_.get_desc());
    backward_ = dnnl::reorder({builder.engine(), from_.get_desc(), builder.engine(), x_.desc()});
  }

 private:
  void pass_back(dnnl::stream& stream) override {
    backward_.execute(stream, {{DNNL_ARG_FROM, from_}, {DNNL_ARG_TO, dx()}});
  }

  memory to_, from_;
  dnnl::reorder forward_, backward_;
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
