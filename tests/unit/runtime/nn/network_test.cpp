#include "runtime/nn/network.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <numeric>

#include "runtime/nn/convolution_choice.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/layer_shapes.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/every_layer.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

/// Single precision has an error of 6e-8 per operation. Sums of some hundred terms of both signs
/// and the transforms of Winograd's algorithm reach about ten times that, batch normalisation over
/// few values a hundred times. A wrong index or sign gives an error of 1e-1.
constexpr double kTolerance = 2e-5;

/// Whether the padding of parameter `index` is zero, on which the optimizer and sums over ranks
/// rely.
bool padding_is_zero(const WeightLayout& layout, std::span<float> buffer, size_t index) {
  HugeBuffer packed(layout.size());
  layout.from_plain(layout.to_plain(buffer, index), packed.floats(), index);
  const Parameter& parameter = layout.parameters()[index];
  return std::ranges::equal(buffer.subspan(parameter.offset, parameter.size),
                            packed.floats().subspan(parameter.offset, parameter.size));
}

/// Compares one training step and one inference with the reference; `layout` may come from a
/// network of another batch size.
void compare(const test::Problem& p, std::shared_ptr<const WeightLayout> layout = nullptr,
             Compute compute = Compute::Float32) {
  const double tolerance = compute == Compute::Float32 ? kTolerance : kBFloat16Tolerance;
  const int64_t batch = int64_t(p.labels.size());
  Network network(p.model, batch, Network::Mode::Training, layout, compute);
  const WeightLayout& slots = *network.layout();
  const HugeBuffer weights = load(slots, p.weights);
  HugeBuffer gradients(slots.size());
  const std::vector<float> images = to_floats(p.images.values);

  const reference::Step expected = reference::train_step(p.model, p.weights, p.images, p.labels);
  network.use_weights(weights.floats());
  const BatchResult result = network.forward(images, p.labels);
  CHECK(distance(network.scores(), expected.scores.values) < tolerance);
  CHECK(result.loss_sum == Approx(expected.loss_sum).epsilon(tolerance / 2));

  std::vector<size_t> ready;
  network.backward(gradients.floats(), 1, [&](size_t i) { ready.push_back(i); });
  std::vector<size_t> descending;
  for (size_t i = slots.parameters().size(); i-- > 0;) descending.push_back(i);
  CHECK(ready == descending);
  for (size_t i = 0; i < slots.parameters().size(); ++i) {
    const Parameter& parameter = slots.parameters()[i];
    std::vector<double> wanted;
    if (parameter.trainable) {
      wanted = expected.gradients.at(parameter.name).values;
    } else {
      wanted = expected.moments.at(parameter.name).values;
      for (double& v : wanted) v *= double(batch);
    }
    CAPTURE(parameter.name);
    CHECK(distance(slots.to_plain(gradients.floats(), i), wanted) < tolerance);
    CHECK(padding_is_zero(slots, gradients.floats(), i));
  }

  Network inference(p.model, batch, Network::Mode::Inference, network.layout());
  inference.use_weights(weights.floats());
  inference.forward(images, p.labels);
  CHECK(distance(inference.scores(), reference::infer(p.model, p.weights, p.images).values) <
        kTolerance);
}

void compare(const std::string& input, const std::string& layers, int64_t batch) {
  CAPTURE(input, layers, batch);
  compare(test::make_problem(input, layers, batch));
}

const std::string kEnd = "- flatten\n- linear: {name: fc, features: 3}\n";

}  // namespace

TEST_CASE("convolutions agree with the reference for odd sizes", "[network]") {
  const int64_t batch = GENERATE(1, 3, 17);
  const std::string channels = GENERATE("1", "3", "16", "20");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: ";
  const std::string input = "[" + channels + ", 9, 7]";
  compare(input, conv + "3}\n- relu\n" + conv + "3, padding: 1, bias: false}\n" + kEnd, batch);
  compare(input, conv + "1, stride: 2, bias: false}\n- relu\n" + conv + "2, stride: 2}\n" + kEnd,
          batch);
}

TEST_CASE("a ReLU6 after batch normalisation agrees with the reference", "[network]") {
  const int64_t batch = GENERATE(3, 17);
  const std::string channels = GENERATE("3", "16", "20");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: 3}\n";
  compare("[" + channels + ", 9, 7]", conv + "- batch_norm: {name: n}\n- relu6\n" + conv + kEnd,
          batch);
}

TEST_CASE("depthwise convolutions agree with the reference, on maps of any size", "[network]") {
  const int64_t batch = GENERATE(1, 3, 17);
  const std::string channels = GENERATE("3", "16", "20");
  const std::string depthwise =
      "- conv2d: {channels: " + channels + ", groups: " + channels + ", kernel: ";
  const std::string map = GENERATE("1, 1", "2, 2", "2, 9", "7, 3");
  const std::string then =
      depthwise + "5, padding: 2}\n- relu\n" + depthwise + "3, padding: 2, dilation: 2}\n" + kEnd;
  compare("[" + channels + ", " + map + "]", depthwise + "3, padding: 1, bias: false}\n" + then,
          batch);
  compare("[" + channels + ", 9, 7]",
          depthwise + "3, padding: 1, stride: 2}\n" + depthwise +
              "[2, 1], stride: [1, 3], bias: false}\n- relu\n" + depthwise +
              "3, padding: 1, stride: 2}\n" + kEnd,
          batch);
}

TEST_CASE("convolutions by Winograd's algorithm agree with the reference", "[network]") {
  omp_set_num_threads(GENERATE(1, 2));  // with two threads, oneDNN computes them if it can
  compare("[32, 18, 18]",
          "- conv2d: {channels: 64, kernel: 3}\n- relu\n"
          "- conv2d: {channels: 32, kernel: 3, padding: 1}\n" +
              kEnd,
          5);
  compare("[32, 32, 32]",
          "- conv2d: {channels: 32, kernel: 3, padding: 1}\n- relu\n"
          "- conv2d: {channels: 32, kernel: 3, padding: 1, bias: false}\n" +
              kEnd,
          2);
  omp_set_num_threads(1);
  compare("[32, 16, 12]",  // oneDNN has no fast implementation for such padding
          "- conv2d: {channels: 32, kernel: 3, padding: [2, 1], bias: false}\n"
          "- batch_norm: {name: n}\n- relu\n- conv2d: {channels: 48, kernel: 3}\n" +
              kEnd,
          17);
}

TEST_CASE("each algorithm of a convolution agrees with the reference", "[network]") {
  omp_set_num_threads(1);
  const auto layers = [](const std::string& algorithm) {
    return "- conv2d: {channels: 16, kernel: 3, algorithm: " + algorithm + "}\n" + kEnd;
  };
  for (const char* algorithm : {"auto", "direct"}) compare("[16, 3, 3]", layers(algorithm), 3);
  const Model model = test::make_problem("[16, 3, 3]", layers("winograd"), 3).model;
  if (!can_use_winograd(Compute::Float32, model.layers[0], model.input)) {
    WARN("skipped here: this processor has no AVX2");
    return;
  }
  compare("[16, 3, 3]", layers("winograd"), 3);  // by the rules, there are too few tiles
  const auto scores = [&](const std::string& algorithm) {
    const test::Problem p = test::make_problem("[16, 9, 9]", layers(algorithm), 17);
    Network network(p.model, 17, Network::Mode::Training);
    const HugeBuffer weights = load(*network.layout(), p.weights);
    network.use_weights(weights.floats());
    network.forward(to_floats(p.images.values), p.labels);
    const auto result = network.scores();
    return std::vector<float>(result.begin(), result.end());
  };
  CHECK(scores("direct") != scores("winograd"));
}

TEST_CASE("an algorithm that cannot be used is refused in training only", "[network]") {
  const test::Problem p = test::make_problem(
      "[20, 9, 7]", "- conv2d: {name: c, channels: 20, kernel: 3, algorithm: winograd}\n" + kEnd,
      2);
  CHECK_THROWS_WITH(Network(p.model, 2, Network::Mode::Training),
                    Catch::Contains("layer 'c' (line 5): 'algorithm: winograd' cannot be used"));
  CHECK_NOTHROW(Network(p.model, 2, Network::Mode::Inference));
}

TEST_CASE("a network in bf16 agrees with the reference within its precision", "[network]") {
  if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_bf16) {
    WARN("skipped here: this processor has no bf16");
    return;
  }
  const int64_t batch = GENERATE(1, 17);
  const std::string channels = GENERATE("1", "3", "16", "20", "32");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: ";
  // Without ReLU and max_pool, which amplify small differences.
  const std::string layers =
      GENERATE_COPY(conv + "3}\n" + conv + "3, padding: 1, bias: false}\n" + conv +
                        "1, stride: 2, bias: false}\n- flatten\n" +
                        "- linear: {features: 20}\n- linear: {features: 3}\n",
                    conv + "3, padding: 1}\n- avg_pool: {kernel: 2}\n" + conv +
                        "1}\n- global_avg_pool\n- linear: {features: 3}\n",
                    "- flatten\n- linear: {features: 20}\n- linear: {features: 3}\n");
  CAPTURE(batch, channels);
  const test::Problem p = test::make_problem("[" + channels + ", 9, 7]", layers, batch);
  compare(p, nullptr, Compute::BFloat16);

  Network exact(p.model, batch, Network::Mode::Training);
  Network rough(p.model, batch, Network::Mode::Training, exact.layout(), Compute::BFloat16);
  const HugeBuffer weights = load(*exact.layout(), p.weights);
  const std::vector<float> images = to_floats(p.images.values);
  for (Network* network : {&exact, &rough}) {
    network->use_weights(weights.floats());
    network->forward(images, p.labels);
  }
  CHECK_FALSE(std::ranges::equal(exact.scores(), rough.scores()));
}

TEST_CASE("linear layers agree with the reference for odd sizes", "[network]") {
  const int64_t batch = GENERATE(1, 3, 17);
  const std::string features = GENERATE("1", "3", "16", "20");
  const std::string linear = "- linear: {features: " + features;
  compare("[" + features + "]",
          linear + "}\n- relu\n" + linear + ", bias: false}\n- relu\n- linear: {features: 5}\n",
          batch);
}

TEST_CASE("large linear layers agree with the reference in all their kernels", "[network]") {
  omp_set_num_threads(1);
  const int64_t batch = GENERATE(8, 16, 20, 33);  // linear_backward_data accepts 16 and 20
  const auto [input, before] = GENERATE(table<const char*, const char*>(
      {{"[20]", "- linear: {features: 64}\n- relu\n"},
       {"[3, 8, 8]", "- conv2d: {channels: 16, kernel: 3}\n- relu\n- flatten\n"}}));
  compare(input,
          before + std::string("- linear: {features: 128}\n- relu\n- linear: {features: 5}\n"),
          batch);
}

TEST_CASE("every layer agrees with the reference", "[network]") {
  for (const test::LayerCase& layer : test::every_layer()) compare(layer.input, layer.layers, 5);
}

TEST_CASE("pools agree with the reference for odd sizes", "[network]") {
  const int64_t batch = GENERATE(1, 3);
  const std::string channels = GENERATE("1", "16", "20");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: 1}\n";
  const std::string pool = GENERATE("max_pool", "avg_pool");
  const std::string window = GENERATE("kernel: 2", "kernel: 3, stride: 2, padding: 1",
                                      "kernel: 3, stride: 1", "kernel: 2, stride: 3");
  const std::string layer = "- " + pool + ": {" + window + "}\n";
  compare("[2, 9, 8]", conv + "- relu\n" + layer + kEnd, batch);
  compare("[2, 9, 8]", conv + layer + "- relu\n" + layer + kEnd, batch);
}

TEST_CASE("batch normalisation agrees with the reference", "[network]") {
  const int64_t batch = GENERATE(3, 17);
  const std::string channels = GENERATE("1", "3", "16", "20");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: 3, padding: 1}\n";
  compare("[2, 6, 5]", conv + "- batch_norm\n- relu\n" + kEnd, batch);
  compare(
      "[2, 6, 5]",
      conv + "- relu: {name: r}\n" + conv + "- batch_norm\n- add: {from: r}\n" + "- relu\n" + kEnd,
      batch);
  compare("[7]",
          "- linear: {features: " + channels +
              "}\n- batch_norm\n- relu\n"
              "- linear: {features: 3}\n",
          batch);
}

namespace {

/// Replaces the sums of each network by those over all networks at each stop of a pass.
void finish_pass(std::vector<Network>& networks) {
  for (;;) {
    std::vector<std::span<double>> sums;
    for (Network& network : networks) sums.push_back(network.advance());
    if (sums[0].empty()) return;
    for (size_t i = 0; i < sums[0].size(); ++i) {
      double all = 0;
      for (const auto& own : sums) all += own[i];
      for (const auto& own : sums) own[i] = all;
    }
  }
}

/// Compares networks that share statistics, for consecutive parts of a batch of these sizes.
void compare_joint(const std::string& input, const std::string& layers,
                   const std::vector<size_t>& sizes) {
  const size_t batch = std::accumulate(sizes.begin(), sizes.end(), size_t(0));
  const test::Problem p = test::make_problem(input, layers, int64_t(batch));
  const reference::Step expected = reference::train_step(p.model, p.weights, p.images, p.labels);
  std::shared_ptr<const WeightLayout> layout;
  std::vector<Network> networks;
  for (const size_t size : sizes) {
    networks.emplace_back(p.model, int64_t(size), Network::Mode::JointTraining, layout);
    layout = networks.back().layout();
  }
  const HugeBuffer weights = load(*layout, p.weights);
  const std::vector<float> images = to_floats(p.images.values);
  const size_t image = images.size() / batch;
  size_t first = 0;
  for (size_t i = 0; i < sizes.size(); first += sizes[i++]) {
    networks[i].use_weights(weights.floats());
    networks[i].begin_forward(std::span(images).subspan(first * image, sizes[i] * image),
                              std::span(p.labels).subspan(first, sizes[i]));
  }
  finish_pass(networks);
  double loss = 0;
  for (Network& network : networks) loss += network.result().loss_sum;
  CHECK(loss == Approx(expected.loss_sum).epsilon(1e-5));

  std::vector<HugeBuffer> gradients;
  const std::function<void(size_t)> nothing;
  for (Network& network : networks) {
    network.begin_backward(gradients.emplace_back(layout->size()).floats(), 1, nothing);
  }
  finish_pass(networks);
  for (size_t i = 0; i < layout->parameters().size(); ++i) {
    std::vector<float> sum = layout->to_plain(gradients[0].floats(), i);
    for (size_t k = 1; k < gradients.size(); ++k) {
      const std::vector<float> more = layout->to_plain(gradients[k].floats(), i);
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += more[j];
    }
    const Parameter& parameter = layout->parameters()[i];
    std::vector<double> wanted = parameter.trainable ? expected.gradients.at(parameter.name).values
                                                     : expected.moments.at(parameter.name).values;
    if (!parameter.trainable) {
      for (double& v : wanted) v *= double(batch);
    }
    CAPTURE(parameter.name, sizes);
    CHECK(distance(sum, wanted) < kTolerance);
  }
}

}  // namespace

TEST_CASE("networks that share a batch share its statistics", "[network]") {
  const std::string channels = GENERATE("1", "16", "20");
  const std::string conv = "- conv2d: {channels: " + channels + ", kernel: 3, padding: 1}\n";
  const std::string layers = conv + "- batch_norm\n- relu: {name: r}\n" + conv +
                             "- batch_norm\n- add: {from: r}\n" + "- relu\n" + kEnd;
  compare_joint("[2, 6, 5]", layers, {17});
  compare_joint("[2, 6, 5]", layers, {8, 9});
  compare_joint("[2, 6, 5]", layers, {4, 1, 4, 3});
}

TEST_CASE("a frozen layer has no gradients, and does not change the others", "[network]") {
  const auto gradients_of = [](const test::Problem& p) {
    Network network(p.model, int64_t(p.labels.size()), Network::Mode::Training);
    const WeightLayout& layout = *network.layout();
    const HugeBuffer weights = load(layout, p.weights);
    HugeBuffer gradients(layout.exchanged_size());
    network.use_weights(weights.floats());
    const std::vector<float> images = to_floats(p.images.values);
    network.forward(images, p.labels);
    std::vector<size_t> ready;
    network.backward(gradients.floats(), 1, [&](size_t i) { ready.push_back(i); });
    CHECK(ready.size() == layout.num_exchanged());
    std::map<std::string, std::vector<float>> all;
    for (size_t i = 0; i < layout.num_trainable(); ++i) {
      all[layout.parameters()[i].name] = layout.to_plain(gradients.floats(), i);
    }
    return all;
  };
  for (const test::LayerCase& layer : test::every_layer()) {
    if (layer.word == "batch_norm") continue;  // a frozen one computes something else
    CAPTURE(layer.layers);
    test::Problem p = test::make_problem(layer.input, layer.layers, 5);
    const auto all = gradients_of(p);
    for (Layer& frozen : p.model.layers) {
      if (tensors_of(frozen, p.model.shape_of(frozen.inputs[0])).empty()) continue;
      if (frozen.name == "last") continue;  // one layer must be trained
      frozen.frozen = true;
      const auto rest = gradients_of(p);
      for (const auto& [name, gradient] : rest) {
        CAPTURE(frozen.name, name);
        std::vector<double> wanted(all.at(name).begin(), all.at(name).end());
        CHECK(distance(gradient, wanted) < kTolerance);
      }
      CHECK_FALSE(rest.contains(frozen.name + ".weight"));
      frozen.frozen = layer.word.size() % 2 == 0;  // frozen alone, or with the layers before it
    }
  }
}

TEST_CASE("values with several readers get the sum of their gradients", "[network]") {
  const std::string conv = "- conv2d: {name: a, channels: 4, kernel: 3}\n";
  compare("[2, 6, 5]", conv + "- add: {from: a}\n- relu\n" + kEnd, 3);
  compare("[2, 6, 5]",
          conv +
              "- relu: {name: r}\n- conv2d: {name: b, channels: 4, kernel: 1}\n"
              "- add: {name: s, from: r}\n- conv2d: {name: c, from: r, channels: 4, kernel: 1}\n"
              "- batch_norm: {name: n}\n- add: {from: s}\n- add: {from: r}\n- relu\n" +
              kEnd,
          3);
  compare("[2, 6, 5]",
          conv +
              "- batch_norm: {name: n}\n- conv2d: {channels: 4, kernel: 1}\n"
              "- add: {name: s, from: n}\n- add: {name: t, from: n}\n- add: {from: n}\n" +
              kEnd,
          3);
}

TEST_CASE("feature maps are flattened for any reader", "[network]") {
  const std::string conv = "- conv2d: {channels: 20, kernel: 3}\n";
  compare("[2, 6, 5]", conv + "- flatten\n- relu\n- linear: {features: 3}\n", 3);
  compare("[2, 6, 5]", conv + "- global_avg_pool\n- batch_norm\n- linear: {features: 3}\n", 3);
  compare("[2, 6, 5]", conv + "- global_avg_pool\n", 3);
  compare("[2, 6, 5]", conv + "- max_pool: {kernel: 3}\n- flatten\n", 3);
  compare("[2, 6, 5]",
          conv + "- flatten: {name: f}\n- gelu\n- add: {from: f}\n- linear: {features: 3}\n", 3);
  compare("[2, 6, 5]",
          "- relu\n- avg_pool: {kernel: 2}\n" + conv.substr(0, 25) + "kernel: 1}\n" + kEnd, 3);
  compare("[2, 6, 5]", "- flatten\n- relu\n- linear: {features: 3}\n", 3);
}

TEST_CASE("a network of another batch size uses the same layout", "[network]") {
  const std::string layers =
      "- conv2d: {channels: 20, kernel: 3}\n- batch_norm\n- relu\n"
      "- flatten\n- linear: {features: 70}\n- relu\n- linear: {features: 5}\n";
  const test::Problem large = test::make_problem("[1, 9, 9]", layers, 64);
  const Network network(large.model, 64, Network::Mode::Training);
  const int64_t batch = GENERATE(1, 3, 44);
  if (batch > 1) compare(test::make_problem("[1, 9, 9]", layers, batch), network.layout());
  CHECK(network.layout()->trainable_size() < network.layout()->size());
}

TEST_CASE("a tiny network learns, to the same bits each time", "[network]") {
  const test::Problem p =
      test::make_problem("[1, 6, 6]",
                         "- conv2d: {channels: 4, kernel: 3}\n- batch_norm\n- relu\n- flatten\n"
                         "- linear: {features: 3}\n",
                         17);
  const std::vector<float> images = to_floats(p.images.values);
  const auto train = [&](std::vector<double>& losses) {
    Network network(p.model, 17, Network::Mode::Training);
    HugeBuffer weights(network.layout()->size()), gradients(network.layout()->size());
    initialise(*network.layout(), 5, weights.floats());
    for (int step = 0; step < 20; ++step) {
      network.use_weights(weights.floats());
      losses.push_back(network.forward(images, p.labels).loss_sum);
      network.backward(gradients.floats(), 1.0f / 17);
      const size_t first = network.layout()->trainable_size();
      update_statistics(gradients.floats().subspan(first), weights.floats().subspan(first));
      for (size_t i = 0; i < network.layout()->trainable_size(); ++i) {
        weights.data()[i] -= 0.2f * gradients.data()[i];
      }
    }
    return std::vector<float>(weights.floats().begin(), weights.floats().end());
  };
  std::vector<double> losses, again;
  CHECK(train(losses) == train(again));
  CHECK(losses == again);
  CHECK(losses.back() < 0.5 * losses.front());
}

TEST_CASE("weights start from the seed and their name alone, within PyTorch's bounds",
          "[network]") {
  const test::Problem p = test::make_problem("[2, 9, 9]",
                                             "- conv2d: {name: c, channels: 20, kernel: 3}\n"
                                             "- batch_norm: {name: n}\n" +
                                                 kEnd,
                                             1);
  const auto values = [&](int64_t batch, uint64_t seed, const std::string& name) {
    const Network network(p.model, batch, Network::Mode::Training);
    HugeBuffer weights(network.layout()->size());
    initialise(*network.layout(), seed, weights.floats());
    const auto& all = network.layout()->parameters();
    const auto found = std::ranges::find(all, name, &Parameter::name);
    return network.layout()->to_plain(weights.floats(), size_t(found - all.begin()));
  };
  const std::vector<float> weight = values(1, 3, "c.weight");
  CHECK(weight == values(64, 3, "c.weight"));
  CHECK(weight != values(1, 4, "c.weight"));
  const auto [low, high] = std::ranges::minmax(weight);
  const float bound = 1 / std::sqrt(2.0f * 3 * 3);
  CHECK(low >= -bound);
  CHECK(high <= bound);
  CHECK(high - low > bound);
  CHECK(values(1, 3, "n.weight") == std::vector<float>(20, 1));
  CHECK(values(1, 3, "n.running_mean") == std::vector<float>(20, 0));
}

TEST_CASE("weights start with the model's initialisation", "[network]") {
  const test::Problem p = test::make_problem(
      "[16, 9, 9]",
      "- conv2d: {name: he, channels: 64, kernel: 3, init: he}\n"
      "- batch_norm: {name: zero, init: zero}\n"
      "- conv2d: {name: xavier, channels: 32, kernel: 3, groups: 2, init: xavier}\n"
      "- group_norm: {name: one, groups: 4}\n- conv2d: {name: usual, channels: 8, kernel: 1}\n" +
          kEnd,
      1);
  const Network network(p.model, 1, Network::Mode::Training);
  const WeightLayout& layout = *network.layout();
  HugeBuffer weights(layout.size());
  initialise(layout, 7, weights.floats());
  const auto values = [&](const std::string& name) {
    const auto found = std::ranges::find(layout.parameters(), name, &Parameter::name);
    return layout.to_plain(weights.floats(), size_t(found - layout.parameters().begin()));
  };
  const auto variance = [](const std::vector<float>& numbers) {
    double squares = 0;
    for (const float x : numbers) squares += double(x) * double(x);
    return squares / double(numbers.size());
  };
  // torch.nn.init.kaiming_normal_: 2 / fan_in; the standard deviation over 9216 numbers is 1.5 %
  CHECK(variance(values("he.weight")) == Approx(2.0 / (16 * 9)).epsilon(0.06));
  CHECK(std::ranges::max(values("he.weight")) > 3 * std::sqrt(2.0f / (16 * 9)));  // not uniform
  CHECK(values("he.bias") == std::vector<float>(64, 0));
  // torch.nn.init.xavier_uniform_ of (32, 32, 3, 3): its fans are 288
  const float bound = std::sqrt(6.0f / (288 + 288));
  CHECK(std::ranges::max(values("xavier.weight")) <= bound);
  CHECK(std::ranges::max(values("xavier.weight")) > 0.99f * bound);
  CHECK(variance(values("xavier.weight")) ==
        Approx(double(bound) * double(bound) / 3).epsilon(0.05));
  CHECK(values("xavier.bias") == std::vector<float>(32, 0));
  CHECK(values("zero.weight") == std::vector<float>(64, 0));
  CHECK(values("one.weight") == std::vector<float>(32, 1));
  CHECK(std::ranges::max(values("usual.weight")) <= 1 / std::sqrt(32.0f));
  CHECK(std::ranges::max(values("usual.bias")) > 0);
}

TEST_CASE("weights are unchanged after they are copied to the flat buffer and back", "[network]") {
  const test::Problem p =
      test::make_problem("[3, 9, 9]", "- conv2d: {channels: 20, kernel: 3}\n" + kEnd, 2);
  const Network network(p.model, 2, Network::Mode::Training);
  const WeightLayout& layout = *network.layout();
  const HugeBuffer buffer = load(layout, p.weights);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    CHECK(layout.parameters()[i].offset % 16 == 0);
    CHECK(layout.to_plain(buffer.floats(), i) ==
          to_floats(p.weights.at(layout.parameters()[i].name).values));
  }
  HugeBuffer other(layout.size());
  CHECK_THROWS_AS(layout.from_plain(std::vector<float>(3), other.floats(), 0), Error);
}

TEST_CASE("a language model agrees with the reference, and its targets are counted", "[network]") {
  const std::string causal = GENERATE("true", "false"), heads = GENERATE("1", "2"),
                    rotary = GENERATE("true", "false");
  const std::string layers =
      "- embedding: {name: tokens, vocabulary: 9, features: 12}\n- positions\n"
      "- rms_norm\n- linear: {features: 24}\n"
      "- attention: {heads: 2, kv_heads: " +
      heads + ", causal: " + causal + ", rotary: " + rotary +
      "}\n- linear: {features: 12}\n- dropout: {rate: 0.25}\n- add: {from: positions1}\n"
      "- layer_norm: {bias: false}\n"
      "- linear: {features: 9, tied: tokens, bias: false}\n";
  CAPTURE(layers);
  const test::Problem p = test::make_problem("[7]", layers, 3, "next_token");
  compare(p);
  Network network(p.model, 3, Network::Mode::Inference);
  const HugeBuffer weights = load(*network.layout(), p.weights);
  network.use_weights(weights.floats());
  const BatchResult result = network.forward(to_floats(p.images.values), p.labels);
  CHECK(result.num_targets == 3 * 6);
  CHECK(result.num_correct <= result.num_targets);
}

TEST_CASE("an invalid token is reported by its number", "[network]") {
  const test::Problem p = test::make_problem(
      "[3]", "- embedding: {vocabulary: 4, features: 4}\n- linear: {features: 4}\n", 1,
      "next_token");
  Network network(p.model, 1, Network::Mode::Training);
  const HugeBuffer weights = load(*network.layout(), p.weights);
  network.use_weights(weights.floats());
  const std::vector<float> tokens = {0, 4, 1};
  CHECK_THROWS_WITH(network.forward(tokens, std::vector<uint32_t>{0}),
                    Catch::Contains("the data has the token 4"));
}

TEST_CASE("dropout depends on seed, epoch, sample and layer, but not on the batch", "[network]") {
  const test::Problem p = test::make_problem(
      "[40]", "- dropout: {name: d, rate: 0.5}\n- linear: {name: l, features: 3}\n", 2);
  const auto scores = [&](const Draws& draws, std::vector<float> images) {
    const auto batch = int64_t(images.size()) / 40;
    Network network(p.model, batch, Network::Mode::Training);
    const HugeBuffer weights = load(*network.layout(), p.weights);
    network.use_weights(weights.floats());
    network.use_draws(draws);
    network.forward(images, std::vector<uint32_t>(size_t(batch)));
    return std::vector<float>(network.scores().begin(), network.scores().end());
  };
  const std::vector<float> images = to_floats(p.images.values);
  const std::vector<float> second(images.begin() + 40, images.end());
  const std::vector<uint32_t> samples = {7, 3}, last = {3}, other = {4};
  const std::vector<float> both = scores({1, 2, samples}, images);
  CHECK(distance(scores({1, 2, last}, second), std::vector<double>(both.begin() + 3, both.end())) <
        1e-6);
  CHECK(scores({1, 2, other}, second) != scores({1, 2, last}, second));
  CHECK(scores({1, 3, last}, second) != scores({1, 2, last}, second));
  CHECK(scores({2, 2, last}, second) != scores({1, 2, last}, second));
}

TEST_CASE("a network that reconstructs its input agrees with the reference", "[network]") {
  const std::string channels = GENERATE("2", "16");
  compare(test::make_problem(
      "[" + channels + ", 6, 6]",
      "- conv2d: {name: a, channels: 5, kernel: 3, padding: 1}\n- max_pool: {kernel: 2}\n"
      "- conv_transpose2d: {name: up, channels: 5, kernel: 2, stride: 2}\n"
      "- concat: {from: [a, up]}\n- conv2d: {channels: " +
          channels + ", kernel: 1}\n",
      3, "reconstruction"));
  compare(test::make_problem("[7]", "- linear: {features: 3}\n- tanh\n- linear: {features: 7}\n", 3,
                             "reconstruction"));
}

namespace {

/// The numbers of a training step.
struct StepNumbers {
  double loss = 0;
  std::vector<float> gradients;
  size_t bytes = 0;
  double recomputed = 0;
};

StepNumbers step_within(const test::Problem& p, size_t most_bytes,
                        std::shared_ptr<const WeightLayout> layout = nullptr,
                        Compute compute = Compute::Float32) {
  Network network(p.model, int64_t(p.labels.size()), Network::Mode::Training, std::move(layout),
                  compute, most_bytes);
  const HugeBuffer weights = load(*network.layout(), p.weights);
  HugeBuffer gradients(network.layout()->size());
  const std::vector<float> images = to_floats(p.images.values);
  network.use_weights(weights.floats());
  std::vector<uint32_t> samples(p.labels.size());
  std::iota(samples.begin(), samples.end(), 0);
  network.use_draws({.seed = 7, .samples = samples});
  StepNumbers numbers;
  numbers.loss = network.forward(images, p.labels).loss_sum;
  network.backward(gradients.floats(), 1);
  numbers.gradients = {gradients.floats().begin(), gradients.floats().end()};
  numbers.bytes = network.value_bytes();
  numbers.recomputed = network.recomputed_share();
  return numbers;
}

/// Twelve residual blocks with different layers.
std::string deep_layers() {
  std::string layers = "- conv2d: {name: block0, channels: 16, kernel: 3, padding: 1}\n";
  const std::vector<std::string> activations = {"relu", "silu", "gelu"};
  for (size_t i = 0; i < 12; ++i) {
    layers += "- conv2d: {channels: 16, kernel: 3, padding: 1}\n";
    layers += i % 2 == 0 ? "- batch_norm\n" : "- group_norm: {groups: 4}\n";
    layers += "- " + activations[i % 3] + "\n- dropout: {rate: 0.3}\n";
    layers +=
        "- add: {name: block" + std::to_string(i + 1) + ", from: block" + std::to_string(i) + "}\n";
  }
  return layers + "- max_pool: {kernel: 2}\n" + kEnd;
}

}  // namespace

TEST_CASE("a step that computes results again has the same bits in less memory", "[network]") {
  const auto compute = GENERATE(Compute::Float32, Compute::BFloat16);
  if (compute == Compute::BFloat16 && !has_fast_bf16()) return;
  const test::Problem p = test::make_problem("[3, 16, 16]", deep_layers(), 5);
  const StepNumbers usual = step_within(p, SIZE_MAX, nullptr, compute);
  CHECK(usual.recomputed == 0);
  size_t smallest = usual.bytes;
  for (const size_t percent : {90, 75, 60, 50}) {
    const StepNumbers again = step_within(p, usual.bytes * percent / 100, nullptr, compute);
    CAPTURE(percent);
    CHECK(again.recomputed > 0);
    CHECK(again.bytes <= usual.bytes * percent / 100);
    CHECK(again.loss == usual.loss);
    CHECK(again.gradients == usual.gradients);
    smallest = std::min(smallest, again.bytes);
  }
  CHECK(smallest < usual.bytes);
  CHECK_THROWS_WITH(
      step_within(p, 1000, nullptr, compute),
      Catch::Contains("at least") && Catch::Contains("'activation_memory' is 1000 B"));
}

TEST_CASE("a language model can compute results again", "[network]") {
  const test::Problem p = test::make_problem(
      "[6]",
      "- embedding: {name: tokens, vocabulary: 11, features: 16}\n- positions: {name: positions}\n"
      "- layer_norm\n- linear: {features: 48}\n- attention: {heads: 2}\n"
      "- linear: {name: out, features: 16}\n- add: {name: sum, from: positions}\n- layer_norm\n"
      "- linear: {features: 64}\n- gelu\n- linear: {features: 16}\n- add: {from: sum}\n"
      "- layer_norm\n- linear: {features: 11, bias: false, tied: tokens}\n",
      4, "next_token");
  const StepNumbers usual = step_within(p, SIZE_MAX);
  const StepNumbers again = step_within(p, usual.bytes * 85 / 100);
  CHECK(again.recomputed > 0);
  CHECK(again.loss == usual.loss);
  CHECK(again.gradients == usual.gradients);
}

TEST_CASE("networks that share a batch use its statistics when they compute results again",
          "[network]") {
  const test::Problem p = test::make_problem("[3, 16, 16]", deep_layers(), 4);
  const std::vector<float> images = to_floats(p.images.values);
  const size_t image = images.size() / 4;
  const auto gradients_within = [&](size_t most_bytes) {
    std::shared_ptr<const WeightLayout> layout;
    std::vector<Network> networks;
    for (int i = 0; i < 2; ++i) {
      networks.emplace_back(p.model, 2, Network::Mode::JointTraining, layout, Compute::Float32,
                            most_bytes);
      layout = networks.back().layout();
    }
    CHECK((networks[0].recomputed_share() > 0) == (most_bytes < SIZE_MAX));
    const HugeBuffer weights = load(*layout, p.weights);
    const std::vector<uint32_t> samples = {0, 1, 2, 3};
    for (size_t i = 0; i < 2; ++i) {
      networks[i].use_weights(weights.floats());
      networks[i].use_draws({.seed = 7, .samples = std::span(samples).subspan(2 * i, 2)});
      networks[i].begin_forward(std::span(images).subspan(2 * i * image, 2 * image),
                                std::span(p.labels).subspan(2 * i, 2));
    }
    finish_pass(networks);
    std::vector<HugeBuffer> gradients;
    const std::function<void(size_t)> nothing;
    for (Network& network : networks)
      network.begin_backward(gradients.emplace_back(layout->size()).floats(), 1, nothing);
    finish_pass(networks);
    std::vector<float> all;
    for (const HugeBuffer& own : gradients)
      all.insert(all.end(), own.floats().begin(), own.floats().end());
    return all;
  };
  const size_t usual = Network(p.model, 2, Network::Mode::JointTraining).value_bytes();
  CHECK(gradients_within(usual * 6 / 10) == gradients_within(SIZE_MAX));
}
