#include "runtime/nn/network.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/nn/operation.h"

namespace dlflow::runtime {
namespace {

/// With at most this many channels, oneDNN's AVX-512 convolution of fp32 wants its input plain: it
/// reads images without conversion, and has nothing but reference code for blocks that are nearly
/// empty.
constexpr int64_t kMaxPlainChannels = 3;

}  // namespace

struct Network::Impl {
  Impl(const Model& the_model, int64_t batch_size, Mode mode,
       std::shared_ptr<const WeightLayout> given, Compute as)
      : model(the_model),
        fused(fuse(model)),
        batch(batch_size),
        training(mode != Mode::Inference),
        joint(mode == Mode::JointTraining),
        compute(training ? as : Compute::Float32),
        parameters(model, fused, std::move(given)),
        arena(parameters.engine()),
        stream(parameters.engine()) {
    DLFLOW_CHECK(batch > 0);
    images = &add_images(model.input);
    for (size_t i = 0; i < fused.size(); ++i) results.push_back(add_layer(i));
    prepare_loss();
    if (training) prepare_backward();
    arena.allocate();
    layout = parameters.finish();
  }

  struct Node {
    std::unique_ptr<Operation> operation;
    const Value* result;
    std::string forward_name, backward_name;
    std::vector<size_t> parameters;  // operation->parameters()
  };

  Builder builder(int time) { return {arena, parameters, batch, training, joint, compute, time}; }
  Builder next() { return builder(int(operations.size())); }

  bool convolution_wants_plain(const TensorShape& input) const {
    return input[0] <= kMaxPlainChannels && compute == Compute::Float32 &&
           dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  }

  /// What forward() is given, as samples of `shape`.
  Value& add_images(const TensorShape& shape) {
    Value& value = values.emplace_back();
    value.data = dnnl::memory(plain_floats(batch, shape), parameters.engine(), DNNL_MEMORY_NONE);
    value.shape = shape;
    image_views.push_back(value.data);
    return value;
  }

  /// Throws Error{InvalidInput} naming the layer if oneDNN cannot do what `build` needs.
  auto with_layer_named(auto build) {
    try {
      return build();
    } catch (const dnnl::error& e) {
      throw Error(Errc::InvalidInput,
                  "layer '" + layer_under_way + "': oneDNN cannot compute this: " + e.what());
    }
  }

  Value& add(auto make) {
    Value& result = values.emplace_back();
    std::unique_ptr<Operation> operation = with_layer_named([&] { return make(result); });
    std::vector<size_t> parameters_of = operation->parameters();
    operations.push_back({std::move(operation), &result, layer_under_way,
                          layer_under_way + " backward", std::move(parameters_of)});
    return result;
  }

  const Layer& layer_of(size_t i) const { return model.layers[size_t(fused[i].layer)]; }

  /// oneDNN's linear layers take maps in any format, but with bf16 they do not use AMX then. With a
  /// layout given, that of the weights decides: it has a dimension for each of the input.
  bool takes_maps(const Layer& linear) const {
    const size_t dims = parameters.num_dims(parameters.index(linear.name + ".weight"));
    return dims > 0 ? dims > 2 : compute == Compute::Float32;
  }

  /// Result `i` is read by linear layers only, which take it as it is.
  bool read_by_linear_only(size_t i) const {
    if (i + 1 == fused.size()) return false;
    for (size_t j = i + 1; j < fused.size(); ++j) {
      const bool reads = std::ranges::count(fused[j].inputs, int(i)) > 0;
      if (reads && (layer_of(j).kind != LayerKind::Linear || !takes_maps(layer_of(j))))
        return false;
    }
    return true;
  }

  Value& input_of(size_t i, size_t which = 0) {
    const int index = fused[i].inputs[which];
    if (index != kImages) return *results[size_t(index)];
    const Layer& layer = layer_of(i);
    const bool plain = layer.kind == LayerKind::Conv2d && convolution_wants_plain(model.input);
    if (plain || layer.kind == LayerKind::Flatten) return *images;
    if (converted_images == nullptr) {
      const bool map = model.input.size() == 3;
      converted_images =
          map ? &reordered(*images, next().map_format(model.input)) : &rows(*images, next().type());
    }
    return *converted_images;
  }

  Value* add_layer(size_t i) {
    const Layer& layer = layer_of(i);
    layer_under_way = layer.name;
    const bool relu = fused[i].relu;
    Value& x = input_of(i);
    Value* second = fused[i].inputs.size() > 1 ? &input_of(i, 1) : nullptr;
    switch (layer.kind) {
      case LayerKind::Conv2d:
        return add_convolution(layer, relu, x);
      case LayerKind::Linear:
        return &add([&](Value& y) { return make_linear(next(), layer, relu, x, y); });
      case LayerKind::BatchNorm:
        return &add([&](Value& y) { return make_batch_norm(next(), layer, relu, x, second, y); });
      case LayerKind::MaxPool:
        return &add([&](Value& y) { return make_max_pool(next(), layer, relu, x, y); });
      case LayerKind::Relu:
        return &add([&](Value& y) { return make_relu(next(), x, y); });
      case LayerKind::Add:
        return &add([&](Value& y) { return make_add(next(), relu, x, *second, y); });
      case LayerKind::AvgPool:
        return &add([&](Value& y) { return make_average_pool(next(), layer, x, y); });
      case LayerKind::GlobalAvgPool: {
        Value& y = add([&](Value& v) { return make_average_pool(next(), layer, x, v); });
        return read_by_linear_only(i) ? &y : &flat(y, {x.shape[0], 1, 1}, layer.shape);
      }
      case LayerKind::Flatten:
        if (x.shape.size() == 1) return &rows(x, next().type());
        if (&x == images) return &rows(add_images(layer.shape), next().type());
        return read_by_linear_only(i) ? &x : &flat(x, x.shape, layer.shape);
    }
    return nullptr;
  }

  /// A plain input gives a map, unless it needs a gradient: that must be as plain as the result.
  Value* add_convolution(const Layer& layer, bool relu, Value& x) {
    const bool plain = convolution_wants_plain(x.shape);
    const bool convert = plain && &x != images;
    Value& in = convert ? reordered(x, next().plain_format(x.shape)) : x;
    const dnnl::memory::desc format = next().map_format(layer.shape);
    const bool plain_result = plain && x.needs_gradient;
    Value& y = add([&](Value& result) {
      return make_convolution(next(), layer, relu,
                              plain_result ? next().plain_format(layer.shape) : format, in, result);
    });
    return plain_result ? &reordered(y, format) : &y;
  }

  /// `x`, of (B,F), as numbers of `type`.
  Value& rows(Value& x, dnnl::memory::data_type type) {
    if (x.desc().data_type() == type) return x;
    return reordered(x, {x.desc().dims(), type, dnnl::memory::format_tag::nc});
  }

  Value& reordered(Value& x, const dnnl::memory::desc& format) {
    return add([&](Value& result) {
      result.shape = x.shape;
      return make_reorder(next(), format, format, x, result);
    });
  }

  /// `map`, of one sample's shape `from`, as rows of a matrix.
  Value& flat(Value& map, const TensorShape& from, const TensorShape& shape) {
    return add([&](Value& result) {
      result.shape = shape;
      return make_reorder(next(), next().plain_format(from), next().plain_format(shape), map,
                          result);
    });
  }

  void prepare_loss() {
    results.back() = &rows(scores(), dnnl::memory::data_type::f32);
    const int time = int(operations.size());
    arena.keep(scores().data, 2 * time + 1);  // until the next forward pass
    probabilities = HugeBuffer(size_t(batch * model.num_classes()));
    if (training) scores().gradients.push_back(arena.add(scores().desc(), time));
  }

  void prepare_backward() {
    const int end = int(operations.size());
    for (int i = end; i-- > 0;) {
      const Node& node = operations[size_t(i)];
      if (!node.result->needs_gradient) continue;
      layer_under_way = node.forward_name;
      with_layer_named([&] { node.operation->prepare_backward(builder(2 * end - i)); });
    }
  }

  Value& scores() { return *results.back(); }

  std::span<float> score_floats() {
    return {static_cast<float*>(scores().data.get_data_handle()), probabilities.size()};
  }

  std::span<double> advance_forward() {
    for (; pass.next < operations.size(); ++pass.next) {
      const Node& node = operations[pass.next];
      const Timed timed(*timeline, Timeline::Row::Computation, node.forward_name);
      Operation& operation = *node.operation;
      for (const size_t i : node.parameters) parameters.refresh_weight(stream, i, await);
      if (!std::exchange(pass.stopped, false)) {
        pass.stopped = operation.num_sums() > 0;
        if (pass.stopped) return operation.forward_sums();
      }
      operation.forward(stream);
    }
    stream.wait();
    return {};
  }

  std::span<double> advance_backward() {
    for (; pass.next > 0; --pass.next) {
      const Node& node = operations[pass.next - 1];
      if (!node.result->needs_gradient) continue;
      const Timed timed(*timeline, Timeline::Row::Computation, node.backward_name);
      if (!std::exchange(pass.stopped, false)) {
        pass.stopped = node.operation->num_sums() > 0;
        if (pass.stopped) return node.operation->backward_sums();
      }
      node.operation->backward(stream);
      if (node.parameters.empty()) continue;
      stream.wait();
      announce_from(node.parameters.front());
    }
    stream.wait();
    return {};
  }

  /// All parameters from `first` on have their gradients.
  void announce_from(size_t first) {
    for (size_t i = pass.announced; pass.ready != nullptr && i-- > first;) (*pass.ready)(i);
    pass.announced = first;
  }

  /// How far a pass has come.
  struct Pass {
    bool backward = false;
    bool stopped = false;  // for the sums of operation `next`
    size_t next = 0;       // operation; in a backward pass, the one before it
    size_t announced = 0;  // the parameter from which on all are
    const std::function<void(size_t)>* ready = nullptr;
  };

  const Model model;
  const std::vector<FusedLayer> fused;
  const int64_t batch;
  const bool training, joint;
  const Compute compute;
  ParameterMemory parameters;
  Arena arena;
  dnnl::stream stream;
  std::deque<Value> values;  // addresses stay
  Value* images = nullptr;
  Value* converted_images = nullptr;      // in the format of values, if somebody wants them
  std::vector<dnnl::memory> image_views;  // of what forward() is given
  std::vector<Value*> results;            // of each fused layer
  std::vector<Node> operations;           // in the order of execution
  std::string layer_under_way;            // that operations are made for
  HugeBuffer probabilities;
  std::span<const uint32_t> labels;
  double smoothing = 0;               // of labels
  std::function<void(size_t)> await;  // a weight
  Pass pass;
  Timeline silent;
  Timeline* timeline = &silent;
  std::shared_ptr<const WeightLayout> layout;
};

Network::Network(const Model& model, int64_t batch_size, Mode mode,
                 std::shared_ptr<const WeightLayout> layout, Compute compute)
    : impl_(std::make_unique<Impl>(model, batch_size, mode, std::move(layout), compute)) {}
Network::Network(Network&&) noexcept = default;
Network::~Network() = default;

const std::shared_ptr<const WeightLayout>& Network::layout() const { return impl_->layout; }

void Network::use_timeline(Timeline& timeline) { impl_->timeline = &timeline; }

void Network::use_label_smoothing(double smoothing) { impl_->smoothing = smoothing; }

std::vector<ProductShape> Network::products() const {
  std::vector<ProductShape> shapes;
  for (const Impl::Node& node : impl_->operations) {
    if (const auto shape = node.operation->product()) shapes.push_back(*shape);
  }
  return shapes;
}

void Network::leave_products_to(OuterProducts& products) {
  for (const Impl::Node& node : impl_->operations) node.operation->leave_product_to(products);
}

void Network::use_weights(std::span<const float> weights, std::function<void(size_t)> await) {
  impl_->parameters.bind_weights(weights);
  impl_->await = std::move(await);
}

BatchResult Network::forward(std::span<const float> images, std::span<const uint32_t> labels) {
  begin_forward(images, labels);
  while (!advance().empty()) {
  }
  return result();
}

void Network::backward(std::span<float> gradients, float scale,
                       const std::function<void(size_t)>& ready) {
  begin_backward(gradients, scale, ready);
  while (!advance().empty()) {
  }
}

void Network::begin_forward(std::span<const float> images, std::span<const uint32_t> labels) {
  Impl& n = *impl_;
  DLFLOW_CHECK(int64_t(labels.size()) == n.batch);
  DLFLOW_CHECK(images.size_bytes() == n.images->desc().get_size());
  for (dnnl::memory& view : n.image_views) {
    view.set_data_handle(const_cast<float*>(images.data()));  // oneDNN knows no const memory
  }
  n.labels = labels;
  n.pass = {.next = 0};
}

void Network::begin_backward(std::span<float> gradients, float scale,
                             const std::function<void(size_t)>& ready) {
  Impl& n = *impl_;
  DLFLOW_CHECK(n.training);
  n.parameters.bind_gradients(gradients);
  n.pass = {.backward = true, .next = n.operations.size(), .ready = ready ? &ready : nullptr};
  const float share = scale * float(n.batch);
  for (const Impl::Node& node : n.operations) node.operation->write_statistics(share);
  n.pass.announced = n.layout->parameters().size();
  n.announce_from(n.layout->num_trainable());

  const dnnl::memory& top = n.scores().gradients[0];
  softmax_cross_entropy_backward(
      n.probabilities.floats(), n.labels, n.smoothing, scale,
      {static_cast<float*>(top.get_data_handle()), n.probabilities.size()});
}

std::span<double> Network::advance() {
  return impl_->pass.backward ? impl_->advance_backward() : impl_->advance_forward();
}

std::vector<size_t> Network::joint_sums() const {
  std::vector<size_t> sizes;
  for (const Impl::Node& node : impl_->operations) {
    if (node.operation->num_sums() > 0) sizes.push_back(node.operation->num_sums());
  }
  return sizes;
}

BatchResult Network::result() {
  Impl& n = *impl_;
  const LossSums sums =
      softmax_cross_entropy(n.score_floats(), n.labels, n.smoothing, n.probabilities.floats());
  return {sums.loss, sums.num_correct};
}

std::string Network::first_not_finite() {
  Impl& n = *impl_;
  for (const Impl::Node& node : n.operations) {
    node.operation->forward(n.stream);
    n.stream.wait();
    if (!all_finite(node.result->numbers(), node.result->count())) return node.forward_name;
  }
  return "";
}

std::span<const float> Network::scores() const { return impl_->score_floats(); }

}  // namespace dlflow::runtime
