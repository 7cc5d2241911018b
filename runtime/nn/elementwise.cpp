#include <cstring>

#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

using dnnl::memory;

class Relu : public UnaryOperation {
 public:
  Relu(const Builder& builder, Value& input, Value& result)
      : UnaryOperation(builder, input, result, input.shape, input.desc()) {}

  void forward(dnnl::stream&) override { relu(x_.numbers(), y_.numbers(), y_.count()); }
  void prepare_backward(const Builder& builder) override { share_gradient(builder, true); }

 private:
  void pass_back(dnnl::stream&) override {}
};

class Add : public Operation {
 public:
  Add(const Builder& builder, bool relu, Value& a, Value& b, Value& result)
      : relu_(relu), a_(a), b_(b), y_(result) {
    DLFLOW_CHECK(a.desc() == b.desc());
    y_.shape = a.shape;
    y_.data = builder.make(a.desc());
    y_.needs_gradient = a.needs_gradient || b.needs_gradient;
    builder.read(a.data);
    builder.read(b.data);
  }

  void forward(dnnl::stream&) override {
    add(a_.numbers(), b_.numbers(), relu_, y_.numbers(), y_.count());
  }

  /// One input takes over the gradient and the other gets a copy, since the operations that wrote
  /// the inputs finish their gradients in place.
  void prepare_backward(const Builder& builder) override {
    dy_ = GradientSum(builder, y_, relu_);
    if (a_.needs_gradient) a_.gradients.push_back(dy_.sum());
    if (b_.needs_gradient) {
      db_ = a_.needs_gradient ? builder.make(y_.desc()) : dy_.sum();
      b_.gradients.push_back(db_);
    }
  }

  void backward(dnnl::stream&) override {
    dy_.run();
    if (a_.needs_gradient && b_.needs_gradient) {
      std::memcpy(db_.get_data_handle(), dy_.sum().get_data_handle(), y_.desc().get_size());
    }
  }

 private:
  bool relu_;
  Value& a_;
  Value& b_;
  Value& y_;
  GradientSum dy_;
  memory db_;
};

}  // namespace

Value& add_relu(Assembly& assembly, const LayerNode& node) {
  return assembly.add<Relu>(assembly.input(node));
}

Value& add_add(Assembly& assembly, const LayerNode& node) {
  Value& a = assembly.input(node);
  Value& b = *assembly.second_input(node);
  return assembly.add<Add>(node.relu, a, b);
}

}  // namespace dlflow::runtime
