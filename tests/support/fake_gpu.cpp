#include "tests/support/fake_gpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "runtime/gpu/plugin_abi.h"
#include "tests/support/reference/layers.h"

namespace dlflow::test {

FakeGpu& fake_gpu() {
  static thread_local FakeGpu fake;
  return fake;
}

}  // namespace dlflow::test

namespace {

using dlflow::test::fake_gpu;
using dlflow::test::FakeStream;
using namespace dlflow::runtime::reference;

int next_number() {
  static thread_local int number = 0;
  return ++number;
}

}  // namespace

struct FakeEvent {
  int number = next_number();
  bool done = true;
};

/// Executes a network as specified by the plug-in's interface, one operation after the other.
struct DlflowGpuSession {
  explicit DlflowGpuSession(const DlflowGpuNetwork& n)
      : network(n),
        operations(n.operations, n.operations + n.num_operations),
        announced(n.announced, n.announced + n.num_announced),
        shapes(n.values, n.values + n.num_values),
        weights(size_t(n.size)),
        velocity(size_t(n.trainable_size)),
        gradients(size_t(n.size + n.report_size)) {}

  Tensor parameter(int64_t place, std::vector<int64_t> shape) const {
    if (place < 0) return Tensor();
    Tensor tensor(std::move(shape));
    for (size_t i = 0; i < tensor.values.size(); ++i) tensor[i] = weights[size_t(place) + i];
    return tensor;
  }

  void store(int64_t place, const Tensor& tensor) {
    if (place < 0) return;
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      gradients[size_t(place) + i] = float(tensor[i]);
    }
  }

  Tensor weight_of(const DlflowGpuOperation& o) const {
    const DlflowGpuValue &in = shapes[size_t(o.input)], &out = shapes[size_t(o.output)];
    switch (o.kind) {
      case DLFLOW_GPU_CONVOLUTION:
        return parameter(o.weight, {out.channels, in.channels, o.kernel_height, o.kernel_width});
      case DLFLOW_GPU_LINEAR:
        return parameter(o.weight, {out.channels, in.channels * in.height * in.width});
      default:
        return parameter(o.weight, {in.channels});
    }
  }

  Tensor forward(const DlflowGpuOperation& o, bool training) {
    const Tensor& x = values[size_t(o.input)];
    const int64_t channels = shapes[size_t(o.output)].channels;
    const Tensor weight = weight_of(o), bias = parameter(o.bias, {channels});
    const Window window{o.kernel_height, o.stride, o.padding};
    switch (o.kind) {
      case DLFLOW_GPU_CONVOLUTION:
        return conv2d(x, weight, bias, window);
      case DLFLOW_GPU_LINEAR:
        return linear(x, weight, bias);
      case DLFLOW_GPU_BATCH_NORM:
        return training
                   ? normalised(o, x, weight, bias)
                   : batch_norm(x, weight, bias,
                                {parameter(o.mean, {channels}), parameter(o.variance, {channels})});
      case DLFLOW_GPU_MAX_POOL:
        return max_pool(x, window);
      case DLFLOW_GPU_AVERAGE_POOL:
        return is_global(o) ? global_avg_pool(x) : avg_pool(x, window);
      default:
        return x;
    }
  }

  bool is_global(const DlflowGpuOperation& o) const {
    const DlflowGpuValue& in = shapes[size_t(o.input)];
    return o.kernel_height == in.height && o.kernel_width == in.width && o.padding == 0;
  }

  Tensor normalised(const DlflowGpuOperation& o, const Tensor& x, const Tensor& weight,
                    const Tensor& bias) {
    const MomentsOf<double> m = moments(x);
    Tensor unbiased = m.variance;
    const double n = double(x.values.size()) / double(x.shape[1]);
    for (double& v : unbiased.values) v *= n / std::max(n - 1, 1.0);
    store(o.mean, m.mean);
    store(o.variance, unbiased);
    return batch_norm(x, weight, bias, m);
  }

  int64_t batch() const { return int64_t(labels.size()); }

  /// Runs the staged batch.
  void run(bool training) {
    values.assign(shapes.size(), Tensor());
    values[0] = Tensor({batch(), shapes[0].channels, shapes[0].height, shapes[0].width});
    std::ranges::copy(images, values[0].values.begin());
    for (const DlflowGpuOperation& o : operations) {
      Tensor y = forward(o, training);
      if (o.second >= 0) add_to(y, values[size_t(o.second)]);
      if (o.relu) y = relu(y);
      values[size_t(o.output)] = std::move(y);
    }
  }

  static void add_to(Tensor& sum, const Tensor& more) {
    for (size_t i = 0; i < sum.values.size(); ++i) sum[i] += more[i];
  }

  Tensor backward(const DlflowGpuOperation& o, const Tensor& dy) {
    const Tensor& x = values[size_t(o.input)];
    const Tensor weight = weight_of(o),
                 bias = parameter(o.bias, {shapes[size_t(o.output)].channels});
    const Window window{o.kernel_height, o.stride, o.padding};
    const auto keep = [&](std::vector<Tensor> d) {
      store(o.weight, d[1]);
      store(o.bias, d[2]);
      return std::move(d[0]);
    };
    switch (o.kind) {
      case DLFLOW_GPU_CONVOLUTION:
        return keep(conv2d_backward(x, weight, dy, window));
      case DLFLOW_GPU_LINEAR:
        return keep(linear_backward(x, weight, dy));
      case DLFLOW_GPU_BATCH_NORM:
        return keep(gradients_of({x, weight, bias}, dy, [](const auto& a) {
          return batch_norm(a[0], a[1], a[2], moments(a[0]));
        }));
      case DLFLOW_GPU_MAX_POOL:
        return gradient(x, dy, [&](const auto& a) { return max_pool(a, window); });
      case DLFLOW_GPU_AVERAGE_POOL:
        return gradient(x, dy, [&](const auto& a) {
          return is_global(o) ? global_avg_pool(a) : avg_pool(a, window);
        });
      default:
        return dy;
    }
  }

  template <typename Layer>
  static Tensor gradient(const Tensor& x, const Tensor& dy, const Layer& layer) {
    return gradients_of({x}, dy, [&](const auto& arguments) { return layer(arguments[0]); })[0];
  }

  /// Writes or adds, as `how` requests; unwritten gradients are NaN.
  void give(int32_t value, int32_t how, const Tensor& gradient) {
    if (value < 0 || how == DLFLOW_GPU_NO_GRADIENT) return;
    Tensor& sum = value_gradients[size_t(value)];
    if (how == DLFLOW_GPU_WRITE) {
      sum = values[size_t(value)];
      std::ranges::fill(sum.values, 0.0);
    }
    add_to(sum, gradient);
  }

  void train(float scale, DlflowGpuReady ready, void* context) {
    value_gradients.clear();
    for (const Tensor& value : values) {
      value_gradients.push_back(value);
      std::ranges::fill(value_gradients.back().values, std::numeric_limits<double>::quiet_NaN());
    }
    const int32_t top = operations.back().output;
    Tensor d = gradient_of_loss(values[size_t(top)], [&](const auto& top_scores) {
      return softmax_cross_entropy(top_scores, labels);
    });
    for (double& v : d.values) v *= scale;
    value_gradients[size_t(top)] = d;
    for (size_t i = operations.size(); i-- > 0;) {
      const DlflowGpuOperation& o = operations[i];
      if (shapes[size_t(o.output)].has_gradient) {
        Tensor dy = value_gradients[size_t(o.output)];
        if (o.relu)
          dy = gradient(values[size_t(o.output)], dy, [](const auto& y) { return relu(y); });
        give(o.input, o.input_gradient, backward(o, dy));
        give(o.second, o.second_gradient, dy);
      }
      fake_gpu().log.push_back("backward " + std::to_string(i));
      if (std::ranges::count(announced, int32_t(i)) == 0) continue;
      fake_gpu().log.emplace_back("ready");
      ready(context, int32_t(i));
    }
  }

  std::vector<float>& buffer(int32_t which) {
    if (which == DLFLOW_GPU_WEIGHTS) return weights;
    if (which == DLFLOW_GPU_VELOCITY) return velocity;
    if (which == DLFLOW_GPU_GRADIENTS) return gradients;
    const Tensor& top = values[size_t(operations.back().output)];
    scores.assign(top.values.begin(), top.values.end());
    return scores;
  }

  DlflowGpuNetwork network;
  std::vector<DlflowGpuOperation> operations;
  std::vector<int32_t> announced;
  std::vector<DlflowGpuValue> shapes;
  std::vector<float> images;  // staged, with the labels
  std::vector<uint32_t> labels;
  std::vector<float> weights, velocity, gradients, scores, report_here;
  std::vector<Tensor> values, value_gradients;
  std::set<int64_t> built;  // prepared batch sizes
  float broken = 0;
  FakeStream stream{next_number()};
};

namespace {

FakeStream& stream_of(DlflowGpuStream stream) { return *static_cast<FakeStream*>(stream); }
FakeEvent& event_of(DlflowGpuEvent event) { return *static_cast<FakeEvent*>(event); }
std::string name_of(const FakeStream& s) { return "s" + std::to_string(s.number); }
std::string name_of(const FakeEvent& e) { return "e" + std::to_string(e.number); }
void log(const std::string& line) { fake_gpu().log.push_back(line); }

/// The result of a call of this name.
DlflowGpuError answer(const char* call) {
  return fake_gpu().broken_call == call ? "the bus fell off" : nullptr;
}

void take_long(const std::string& call) {
  if (fake_gpu().slow) fake_gpu().slow(call);
}

void need_batch(DlflowGpuSession* s, int64_t batch) {
  if (s->built.insert(batch).second) log("build " + std::to_string(batch));
}

const char* arithmetic() { return "fake 1.0"; }

DlflowGpuError count_devices(int32_t* count) {
  take_long("count_devices");
  if (fake_gpu().no_driver) return "there is no driver";
  *count = fake_gpu().num_devices;
  return answer("count_devices");
}

DlflowGpuError describe_device(int32_t device, DlflowGpuDevice* description) {
  *description = {};
  std::strcpy(description->name, "Fake GPU");
  std::strcpy(description->id, ("GPU-" + std::to_string(device)).c_str());
  return answer("describe_device");
}

DlflowGpuError open(int32_t, const DlflowGpuNetwork* network, DlflowGpuSession** session) {
  take_long("open");
  if (const DlflowGpuError error = answer("open")) return error;
  fake_gpu().tensor_float32 = network->tensor_float32 != 0;
  *session = new DlflowGpuSession(*network);
  return nullptr;
}

void close(DlflowGpuSession* session) { delete session; }

DlflowGpuError prepare(DlflowGpuSession* s, const int64_t* batches, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    take_long("prepare " + std::to_string(batches[i]));
    s->built.insert(batches[i]);
  }
  return answer("prepare");
}

DlflowGpuError write(DlflowGpuSession* s, int32_t buffer, int64_t first, int64_t count,
                     const float* values) {
  std::copy_n(values, count, s->buffer(buffer).begin() + first);
  return answer("write");
}

DlflowGpuError read(DlflowGpuSession* s, int32_t buffer, int64_t first, int64_t count,
                    float* values) {
  std::copy_n(s->buffer(buffer).begin() + first, count, values);
  return answer("read");
}

DlflowGpuError stage(DlflowGpuSession* s, const float* images, const uint32_t* labels,
                     int64_t batch) {
  if (batch > s->network.max_batch) return "more samples than there is memory for";
  const DlflowGpuValue& in = s->shapes[0];
  s->images.assign(images, images + batch * in.channels * in.height * in.width);
  s->labels.assign(labels, labels + batch);
  log("stage");
  return answer("stage");
}

DlflowGpuError train(DlflowGpuSession* s, float scale, const float* report, DlflowGpuReady ready,
                     void* context) {
  const DlflowGpuNetwork& n = s->network;
  const int64_t batch = s->batch();
  std::fill(s->gradients.begin(), s->gradients.end(), 0.0f);
  std::copy_n(report, n.report_size, s->gradients.begin() + n.size);
  s->gradients[size_t(n.size)] = 0;
  if (batch == 0) {
    for (const int32_t operation : s->announced) ready(context, operation);
    return nullptr;
  }
  need_batch(s, batch);
  s->run(true);
  for (int64_t i = n.trainable_size; i < n.size; ++i)
    s->gradients[size_t(i)] *= scale * float(batch);
  const Tensor& scores = s->values[size_t(s->operations.back().output)];
  s->gradients[size_t(n.size)] = float(softmax_cross_entropy(scores, s->labels)) * scale;
  s->train(scale, ready, context);
  return answer("train");
}

DlflowGpuError update(DlflowGpuSession* s, int64_t first, int64_t count, DlflowGpuSgd sgd) {
  log("update " + std::to_string(first) + " " + std::to_string(count) + " " + name_of(s->stream));
  for (int64_t at = first; at < std::min(first + count, s->network.size); ++at) {
    const size_t i = size_t(at);
    if (at >= s->network.trainable_size) {
      s->weights[i] += s->network.statistics_momentum * (s->gradients[i] - s->weights[i]);
      continue;
    }
    const float d = s->gradients[i] + sgd.weight_decay * s->weights[i];
    s->velocity[i] = sgd.momentum * s->velocity[i] + d;
    s->weights[i] -= sgd.learning_rate * s->velocity[i];
    if (!std::isfinite(s->weights[i])) s->broken = 1;
  }
  return answer("update");
}

DlflowGpuError end_step(DlflowGpuSession* s, const float** report) {
  s->report_here.assign(s->gradients.begin() + s->network.size, s->gradients.end());
  s->report_here.push_back(s->broken);
  *report = s->report_here.data();
  return answer("end_step");
}

DlflowGpuError infer(DlflowGpuSession* s, double* loss_sum, int64_t* num_correct) {
  need_batch(s, s->batch());
  s->run(false);
  const Tensor& scores = s->values[size_t(s->operations.back().output)];
  *loss_sum = softmax_cross_entropy(scores, s->labels);
  *num_correct = 0;
  const auto classes = scores.shape[1];
  for (int64_t b = 0; b < s->batch(); ++b) {
    const auto row = scores.values.begin() + b * classes;
    *num_correct += std::max_element(row, row + classes) - row == int64_t(s->labels[size_t(b)]);
  }
  return answer("infer");
}

float* gradients(DlflowGpuSession* s) { return s->gradients.data(); }
DlflowGpuStream computing_stream(DlflowGpuSession* s) { return &s->stream; }

DlflowGpuError create_stream(DlflowGpuStream* stream) {
  if (const DlflowGpuError error = answer("create_stream")) return error;
  *stream = new FakeStream{next_number()};
  return nullptr;
}
void destroy_stream(DlflowGpuStream stream) { delete &stream_of(stream); }
DlflowGpuError create_event(DlflowGpuEvent* event) {
  if (const DlflowGpuError error = answer("create_event")) return error;
  *event = new FakeEvent;
  return nullptr;
}
void destroy_event(DlflowGpuEvent event) { delete &event_of(event); }

DlflowGpuError record_event(DlflowGpuEvent event, DlflowGpuStream stream) {
  event_of(event).done = !stream_of(stream).silent;
  log("record " + name_of(event_of(event)) + " " + name_of(stream_of(stream)));
  return answer("record_event");
}

DlflowGpuError wait_for_event(DlflowGpuStream stream, DlflowGpuEvent event) {
  if (!event_of(event).done) stream_of(stream).silent = true;
  log("wait " + name_of(stream_of(stream)) + " " + name_of(event_of(event)));
  return answer("wait_for_event");
}

DlflowGpuError event_done(DlflowGpuEvent event, int32_t* done) {
  *done = event_of(event).done;
  return answer("event_done");
}

constexpr DlflowGpuPlugin kPlugin = {
    DLFLOW_GPU_ABI, arithmetic,     count_devices, describe_device,
    open,           close,          prepare,       write,
    read,           stage,          train,         update,
    end_step,       infer,          gradients,     computing_stream,
    create_stream,  destroy_stream, create_event,  destroy_event,
    record_event,   wait_for_event, event_done};

}  // namespace

extern "C" const DlflowGpuPlugin* dlflow_gpu_plugin() { return &kPlugin; }
