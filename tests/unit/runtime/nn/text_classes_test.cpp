#include <algorithm>
#include <dnnl.hpp>

#include "base/error.h"
#include "runtime/nn/network.h"
#include "runtime/nn/sequence_length.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

/// Tests encoders of padded texts that have one class each.
using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

std::string encoder(const std::string& attention) {
  return "- embedding: {name: t, vocabulary: 9, features: 12}\n- positions: {name: p}\n"
         "- layer_norm: {name: n}\n- linear: {name: qkv, features: 36}\n- attention: {" +
         attention +
         "}\n- linear: {name: out, features: 12}\n- add: {name: s, from: p}\n"
         "- layer_norm: {name: l}\n- linear: {name: up, features: 20}\n- gelu\n"
         "- linear: {name: down, features: 12}\n- add: {from: s}\n- mean_pool\n"
         "- linear: {name: last, features: 3}\n";
}

/// fp32 has an error of 6e-8 per operation.
constexpr double kTolerance = 1e-5;

struct Passed {
  double loss = 0;
  std::vector<float> scores;
  std::map<std::string, std::vector<float>> gradients;
};

Passed pass(const Problem& p, const Model& model, std::span<const float> lengths,
            Compute compute = Compute::Float32) {
  Network network(model, int64_t(p.labels.size()), Network::Mode::Training, nullptr, compute);
  const WeightLayout& layout = *network.layout();
  const HugeBuffer weights = load(layout, p.weights);
  HugeBuffer gradients(layout.size());
  network.use_weights(weights.floats());
  const std::vector<float> images = to_floats(p.images.values);
  Passed result;
  result.loss = network.forward(images, p.labels, lengths).loss_sum;
  result.scores.assign(network.scores().begin(), network.scores().end());
  network.backward(gradients.floats(), 1);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    result.gradients[layout.parameters()[i].name] = layout.to_plain(gradients.floats(), i);
  }
  return result;
}

/// The first `length` tokens of sample `b` alone.
Problem alone(const Problem& p, size_t b, int64_t length) {
  Problem one = p;
  one.model = with_length(p.model, length);
  one.labels = {p.labels[b]};
  one.images = reference::Tensor({1, length});
  const auto row = p.images.values.begin() + std::ptrdiff_t(b) * p.model.input[0];
  std::copy(row, row + length, one.images.values.begin());
  return one;
}

std::vector<double> doubles(const std::vector<float>& numbers) {
  return {numbers.begin(), numbers.end()};
}

constexpr const char* kAttentions[] = {"heads: 2, causal: false", "heads: 3, causal: true",
                                       "heads: 1, kv_heads: 1, causal: false, rotary: true"};

}  // namespace

TEST_CASE("encoders of padded texts agree with the reference", "[network][texts]") {
  const std::string attention =
      GENERATE(from_range(std::begin(kAttentions), std::end(kAttentions)));
  const int64_t length = GENERATE(7, 150);  // the second is more than a block of attention
  const Problem p = make_problem("[" + std::to_string(length) + "]", encoder(attention), 4);
  const std::vector<float> lengths = {float(length), 1, 5, float(length - 1)};
  const reference::Step wanted =
      reference::train_step(p.model, p.weights, p.images, p.labels, lengths);
  CAPTURE(attention, length);
  const Passed got = pass(p, p.model, lengths);
  CHECK(got.loss == Approx(wanted.loss_sum).epsilon(kTolerance));
  CHECK(distance(got.scores, wanted.scores.values) < kTolerance);
  REQUIRE(wanted.gradients.size() == got.gradients.size());
  for (const auto& [name, gradient] : wanted.gradients) {
    CAPTURE(name);
    CHECK(distance(got.gradients.at(name), gradient.values) < kTolerance);
  }
  // oneDNN has no bf16 for older processors.
  if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_bf16) return;
  const Passed halves = pass(p, p.model, lengths, Compute::BFloat16);
  CHECK(distance(halves.scores, wanted.scores.values) < kBFloat16Tolerance);
  for (const auto& [name, gradient] : wanted.gradients) {
    CAPTURE(name);
    CHECK(distance(halves.gradients.at(name), gradient.values) < 2 * kBFloat16Tolerance);
  }
}

TEST_CASE("a text has the same scores and gradients with any padding", "[network][texts]") {
  const std::string attention =
      GENERATE(from_range(std::begin(kAttentions), std::end(kAttentions)));
  const Problem p = make_problem("[40]", encoder(attention), 5);
  const std::vector<float> lengths = {40, 2, 17, 33, 16};
  const Passed together = pass(p, p.model, lengths);
  std::map<std::string, std::vector<float>> sums;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const Problem one = alone(p, b, int64_t(lengths[b]));
    const Passed single = pass(one, one.model, {});
    CAPTURE(attention, b);
    const std::span<const float> scores = std::span(together.scores).subspan(b * 3, 3);
    CHECK(distance(scores, doubles(single.scores)) < kTolerance);
    for (const auto& [name, gradient] : single.gradients) {
      sums[name].resize(gradient.size());
      for (size_t i = 0; i < gradient.size(); ++i) sums[name][i] += gradient[i];
    }
  }
  for (const auto& [name, sum] : sums) {
    CAPTURE(name);
    CHECK(distance(together.gradients.at(name), doubles(sum)) < kTolerance);
  }
}

TEST_CASE("tokens after the end of a text change no bit", "[network][texts]") {
  Problem p = make_problem("[40]", encoder("heads: 2, causal: false"), 3);
  const std::vector<float> lengths = {39, 4, 20};
  const Passed before = pass(p, p.model, lengths);
  for (size_t b = 0; b < 3; ++b) {
    for (size_t t = size_t(lengths[b]); t < 40; ++t) p.images[b * 40 + t] = 8;
  }
  const Passed after = pass(p, p.model, lengths);
  CHECK(after.scores == before.scores);
  CHECK(after.gradients == before.gradients);
}

TEST_CASE("networks for classes of texts need a mean_pool before layers that mix positions",
          "[network][texts]") {
  const auto reason = [](const std::string& layers) {
    return reason_against_padding(parse_model("name: m\ninput: [8]\nlayers:\n" + layers, "m.yaml"));
  };
  CHECK(reason(encoder("heads: 2, causal: false")).empty());
  CHECK_THAT(reason("- embedding: {vocabulary: 9, features: 12}\n- flatten: {name: f}\n"
                    "- linear: {features: 3}\n"),
             Catch::Contains("layer 'f' (flatten) is neither computed position by position nor"));
  CHECK_THAT(reason("- embedding: {name: e, vocabulary: 9, features: 12}\n- gelu: {name: g}\n"
                    "- concat: {name: c, from: [e, g]}\n- mean_pool\n- linear: {features: 3}\n"),
             Catch::Contains("layer 'c' (concat) is neither computed position by position nor"));
  // A layer that would read all tokens of a text, including padding, as numbers.
  CHECK_THAT(reason("- linear: {name: l, features: 3}\n"),
             Catch::Contains("layer 'l' (linear) is neither computed position by position nor"));
}
