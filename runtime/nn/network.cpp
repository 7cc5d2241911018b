#include "runtime/nn/network.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "runtime/nn/arena.h"
#include "runtime/nn/assembly.h"

namespace dlflow::runtime {
namespace {

/// Cuts the operations into `parts` segments of roughly equal memory.
std::vector<Segment> cut(const std::vector<size_t>& bytes, size_t parts) {
  const size_t total = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  std::vector<Segment> segments;
  size_t sum = 0;
  int begin = 0;
  for (int i = 0; i < int(bytes.size()); ++i) {
    sum += bytes[size_t(i)];
    const bool is_full = sum * parts >= total * (segments.size() + 1);
    if (!is_full && i + 1 < int(bytes.size())) continue;
    segments.push_back({begin, i + 1});
    begin = i + 1;
  }
  return segments;
}

/// Chooses which segments of a step's n operations to recompute, so that the step's values and the
/// `beside` bytes fit in `most_bytes`; none if they fit anyway. Segments use roughly equal memory.
/// As few as needed are recomputed, starting with the first operation, since the last one is read
/// right after the forward pass. Throws Error{InvalidInput} with the least possible size.
/// Source: Chen et al., arXiv 1604.06174, section 4.
std::vector<Segment> choose_segments(Arena& arena, int num_operations, size_t most_bytes,
                                     size_t beside) {
  const auto measure = [&](const std::vector<Segment>& segments) {
    return arena.measure(StepOrder(num_operations, segments)) + beside;
  };
  size_t least = measure({});
  if (least <= most_bytes) return {};
  const std::vector<size_t> bytes = arena.bytes_written(num_operations);
  for (const size_t parts : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    std::vector<Segment> segments = cut(bytes, parts);
    segments.pop_back();
    const size_t needed = measure(segments);
    least = std::min(least, needed);
    if (needed > most_bytes) continue;
    for (size_t few = 1; few < segments.size(); ++few) {
      std::vector<Segment> first(segments.begin(), segments.begin() + long(few));
      if (measure(first) <= most_bytes) return first;
    }
    return segments;
  }
  throw Error(Errc::InvalidInput,
              "the results of layers and their gradients take " + format_size(least) +
                  " at least, even if most are computed twice; 'activation_memory' is " +
                  format_size(most_bytes) + ": give more, or a smaller batch");
}

}  // namespace

struct Network::Impl {
  Impl(const Model& the_model, int64_t batch_size, Mode mode,
       std::shared_ptr<const WeightLayout> given, Compute compute, size_t most_bytes)
      : model(the_model),
        fused(fuse(model)),
        batch(batch_size),
        training(mode != Mode::Inference),
        parameters(model, fused, std::move(given)),
        arena(parameters.engine()),
        stream(parameters.engine()),
        assembly(model, fused,
                 {arena, parameters, batch, training, mode == Mode::JointTraining,
                  training ? compute : Compute::Float32, draws, lengths}),
        loss(model, batch) {
    prepare_loss();
    if (training) assembly.prepare_backward();
    allocate(most_bytes);
    layout = parameters.finish();
  }

  const std::vector<PlacedOperation>& operations() const { return assembly.operations(); }
  Value& scores() { return assembly.scores(); }

  void prepare_loss() {
    const int time = int(operations().size());
    arena.keep(scores().data, 2 * time + 1);  // until the next forward pass
    probabilities = HugeBuffer(scores().count());
    if (training) scores().gradients.push_back(arena.add(scores().desc(), time));
  }

  void allocate(size_t most_bytes) {
    const int num_operations = int(operations().size());
    const size_t beside = probabilities.size() * sizeof(float);
    const bool has_budget = training && most_bytes < SIZE_MAX;
    if (has_budget) segments = choose_segments(arena, num_operations, most_bytes, beside);
    arena.allocate(StepOrder(num_operations, segments));
  }

  std::span<float> score_floats() {
    return {static_cast<float*>(scores().data.get_data_handle()), probabilities.size()};
  }

  std::span<double> advance_forward() {
    for (; pass.next < operations().size(); ++pass.next) {
      const PlacedOperation& node = operations()[pass.next];
      const Timed timed(*timeline, Timeline::Row::Computation, node.forward_name);
      Operation& operation = *node.operation;
      refresh_weights(node);
      if (!std::exchange(pass.stopped, false)) {
        pass.stopped = operation.num_sums() > 0;
        if (pass.stopped) return operation.forward_sums();
      }
      operation.forward(stream);
    }
    stream.wait();
    return {};
  }

  void refresh_weights(const PlacedOperation& node) {
    for (const size_t i : node.parameters) parameters.refresh_weight(stream, i, await);
    for (const size_t i : node.shared_parameters) parameters.refresh_weight(stream, i, await);
  }

  std::span<double> advance_backward() {
    for (; pass.next > 0; --pass.next) {
      if (!pass.stopped) compute_again();
      const PlacedOperation& node = operations()[pass.next - 1];
      if (!node.result->needs_gradient) continue;
      const Timed timed(*timeline, Timeline::Row::Computation, node.backward_name);
      if (!std::exchange(pass.stopped, false)) {
        pass.stopped = node.operation->num_sums() > 0;
        if (pass.stopped) return node.operation->backward_sums();
      }
      node.operation->backward(stream);
      if (node.parameters.empty() || !parameters.trains(node.parameters.front())) continue;
      stream.wait();
      announce_from(node.parameters.front());
    }
    stream.wait();
    return {};
  }

  /// Recomputes the segment whose backward pass begins now, if there is one. Its weights have not
  /// changed, since none of their gradients is ready.
  void compute_again() {
    if (pass.segments == 0 || segments[pass.segments - 1].end != int(pass.next)) return;
    const Segment& segment = segments[--pass.segments];
    for (int i = segment.begin; i < segment.end; ++i) {
      if (!arena.gives_up(i)) continue;
      const PlacedOperation& node = operations()[size_t(i)];
      const Timed timed(*timeline, Timeline::Row::Computation, node.again_name);
      node.operation->forward(stream);
    }
  }

  /// Announces that all parameters from `first` on have their gradients.
  void announce_from(size_t first) {
    for (size_t i = pass.announced; pass.ready != nullptr && i-- > first;) (*pass.ready)(i);
    pass.announced = first;
  }

  /// Progress of a pass.
  struct Pass {
    bool backward = false;
    bool stopped = false;  // waits for the sums of operation `next`
    size_t next = 0;       // operation; in a backward pass, its index + 1
    size_t announced = 0;  // this parameter and all later ones
    size_t segments = 0;   // number still to be recomputed
    const std::function<void(size_t)>* ready = nullptr;
  };

  const Model model;
  const std::vector<FusedLayer> fused;
  const int64_t batch;
  const bool training;
  ParameterMemory parameters;
  Arena arena;
  dnnl::stream stream;
  Draws draws;                     // operations hold a reference to it
  std::span<const float> lengths;  // likewise
  Assembly assembly;
  Loss loss;
  HugeBuffer probabilities;
  std::function<void(size_t)> await;  // waits for a weight
  std::vector<Segment> segments;
  Pass pass;
  Timeline silent;
  Timeline* timeline = &silent;
  std::shared_ptr<const WeightLayout> layout;
};

Network::Network(const Model& model, int64_t batch_size, Mode mode,
                 std::shared_ptr<const WeightLayout> layout, Compute compute, size_t most_bytes)
    : impl_(std::make_unique<Impl>(model, batch_size, mode, std::move(layout), compute,
                                   most_bytes)) {}
Network::Network(Network&&) noexcept = default;
Network::~Network() = default;

const std::shared_ptr<const WeightLayout>& Network::layout() const { return impl_->layout; }

size_t Network::value_bytes() const {
  return impl_->arena.bytes() + impl_->probabilities.size() * sizeof(float);
}

double Network::recomputed_share() const {
  int twice = 0;
  const int num_operations = int(impl_->operations().size());
  for (int i = 0; i < num_operations; ++i) twice += impl_->arena.gives_up(i) ? 1 : 0;
  return double(twice) / double(num_operations);
}

void Network::use_timeline(Timeline& timeline) { impl_->timeline = &timeline; }

void Network::use_label_smoothing(double smoothing) { impl_->loss.use_label_smoothing(smoothing); }

void Network::use_class_weights(std::span<const float> weights) {
  impl_->loss.use_class_weights(weights);
}

void Network::use_draws(const Draws& draws) { impl_->draws = draws; }

std::vector<ProductShape> Network::products() const {
  std::vector<ProductShape> shapes;
  for (const PlacedOperation& node : impl_->operations()) {
    if (const auto shape = node.operation->product()) shapes.push_back(*shape);
  }
  return shapes;
}

void Network::leave_products_to(OuterProducts& products) {
  for (const PlacedOperation& node : impl_->operations())
    node.operation->leave_product_to(products);
}

void Network::use_weights(std::span<const float> weights, std::function<void(size_t)> await) {
  impl_->parameters.bind_weights(weights);
  impl_->await = std::move(await);
}

BatchResult Network::forward(std::span<const float> images, std::span<const uint32_t> labels,
                             std::span<const float> targets) {
  begin_forward(images, labels, targets);
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

void Network::begin_forward(std::span<const float> images, std::span<const uint32_t> labels,
                            std::span<const float> targets) {
  Impl& n = *impl_;
  DLFLOW_CHECK(int64_t(labels.size()) == n.batch);
  DLFLOW_CHECK(images.size_bytes() == n.assembly.images_size());
  const bool has_lengths = n.model.loss == LossKind::SoftmaxCrossEntropy &&
                           n.model.takes_tokens() && int64_t(targets.size()) == n.batch;
  n.lengths = has_lengths ? targets : std::span<const float>();
  n.assembly.bind(images.data());
  n.loss.bind(images, labels, has_lengths ? std::span<const float>() : targets);
  n.pass = {.next = 0};
}

void Network::begin_backward(std::span<float> gradients, float scale,
                             const std::function<void(size_t)>& ready) {
  Impl& n = *impl_;
  DLFLOW_CHECK(n.training);
  n.parameters.bind_gradients(gradients);
  n.pass = {.backward = true,
            .next = n.operations().size(),
            .segments = n.segments.size(),
            .ready = ready ? &ready : nullptr};
  const float share = scale * float(n.batch);
  for (const PlacedOperation& node : n.operations()) node.operation->write_statistics(share);
  n.pass.announced = n.layout->num_exchanged();
  n.announce_from(n.layout->num_trainable());

  const dnnl::memory& top = n.scores().gradients[0];
  n.loss.gradient(n.probabilities.floats(), scale,
                  {static_cast<float*>(top.get_data_handle()), n.probabilities.size()});
}

std::span<double> Network::advance() {
  return impl_->pass.backward ? impl_->advance_backward() : impl_->advance_forward();
}

std::vector<size_t> Network::joint_sums() const {
  std::vector<size_t> sizes;
  for (const PlacedOperation& node : impl_->operations()) {
    if (node.operation->num_sums() > 0) sizes.push_back(node.operation->num_sums());
  }
  return sizes;
}

BatchResult Network::result() {
  Impl& n = *impl_;
  BatchResult result = n.loss.measure(n.score_floats(), n.probabilities.floats());
  if (!n.training) result.num_in_top5 = n.loss.in_top5(n.score_floats());
  return result;
}

std::string Network::first_not_finite() {
  Impl& n = *impl_;
  for (const PlacedOperation& node : n.operations()) {
    node.operation->forward(n.stream);
    n.stream.wait();
    if (!all_finite(node.result->numbers(), node.result->count())) return node.forward_name;
  }
  return "";
}

std::span<const float> Network::scores() const { return impl_->score_floats(); }

}  // namespace dlflow::runtime
