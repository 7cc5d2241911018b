#include "runtime/nn/contrastive_loss.h"

#include <cmath>
#include <cstdlib>
#include <dnnl.hpp>

#include "base/file.h"
#include "base/json.h"
#include "runtime/nn/network.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/unit/runtime/nn/network_numbers.h"
#include "tests/unit/runtime/nn/random_tensors.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Json pytorch() {
  const char* just_now = std::getenv("DLFLOW_PYTORCH_PAIRS");  // else what is kept beside this
  return Json::parse(read_file(just_now != nullptr ? just_now : DLFLOW_PYTORCH_PAIRS));
}

/// A picture, and four tokens that say what is on it.
test::Problem two_towers(int64_t batch) {
  return test::make_problem("[2, 4, 4]",
                            "- conv2d: {channels: 3, kernel: 3}\n- relu\n- flatten\n"
                            "- linear: {name: picture, features: 5}\n"
                            "- second_input: {name: words, features: 4}\n"
                            "- embedding: {vocabulary: 300, features: 6}\n- gelu\n- flatten\n"
                            "- linear: {name: text, features: 5}\n"
                            "- concat: {from: [picture, text]}\n",
                            batch, "contrastive\ntemperature: 0.5");
}

std::vector<float> words_of(int64_t batch) {
  std::vector<float> words;  // beyond 256 they are no numbers of bf16
  for (int64_t i = 0; i < 4 * batch; ++i) words.push_back(float((i * 97 + i / 4) % 300));
  return words;
}

void compare(const test::Problem& p, std::span<const float> second, Compute compute,
             double tolerance) {
  const auto batch = int64_t(p.labels.size());
  const reference::Step expected =
      reference::train_step(p.model, p.weights, p.images, p.labels, second);
  Network network(p.model, batch, Network::Mode::Training, nullptr, compute);
  const WeightLayout& layout = *network.layout();
  const HugeBuffer weights = test::load(layout, p.weights);
  HugeBuffer gradients(layout.size());
  const std::vector<float> images = test::to_floats(p.images.values);
  network.use_weights(weights.floats());
  const BatchResult result = network.forward(images, p.labels, second);
  network.backward(gradients.floats(), 1);
  CHECK(result.loss_sum == Approx(expected.loss_sum).epsilon(tolerance));
  CHECK(result.num_targets == batch);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    CAPTURE(layout.parameters()[i].name);
    const std::vector<double>& theirs = expected.gradients.at(layout.parameters()[i].name).values;
    CHECK(test::distance(layout.to_plain(gradients.floats(), i), theirs) < tolerance);
  }
  Network inference(p.model, batch, Network::Mode::Inference, network.layout());
  inference.use_weights(weights.floats());
  inference.forward(images, p.labels, second);
  const reference::Tensor scores = reference::infer(p.model, p.weights, p.images, second);
  CHECK(test::distance(inference.scores(), scores.values) < 2e-5);
}

}  // namespace

TEST_CASE("the contrastive loss and its gradient are PyTorch's", "[nn]") {
  const Json expected = pytorch();
  REQUIRE(expected.at("cases").size() == 3);
  for (const Json& json : expected.at("cases")) {
    const std::vector<float> scores = json.at("scores");
    const Pairs pairs{scores.data(), json.at("samples"), json.at("size")};
    std::vector<float> gradient(scores.size());
    ContrastiveLoss loss(json.at("temperature"));
    const ContrastiveSums sums = loss.measure(pairs, 0, pairs.samples, gradient);
    CHECK(sums.loss == Approx(json.at("loss").get<double>()).epsilon(1e-5).margin(1e-6));
    CHECK(sums.num_correct == json.at("correct"));
    const std::vector<double> theirs = json.at("gradient");
    CHECK(test::distance(gradient, theirs) < 1e-5);
  }
}

TEST_CASE("parts of a step, each compared with all of it, are the step", "[nn]") {
  const Json json = pytorch().at("cases").at(2);
  const std::vector<float> scores = json.at("scores");
  const Pairs pairs{scores.data(), 21, 6};
  ContrastiveLoss loss(json.at("temperature"));
  std::vector<float> whole(scores.size());
  const ContrastiveSums all = loss.measure(pairs, 0, 21, whole);
  double sum = 0;
  int64_t num_correct = 0;
  std::vector<float> joined;
  for (const auto& [first, count] : {std::pair{0, 16}, std::pair{16, 1}, std::pair{17, 4}}) {
    std::vector<float> gradient(size_t(count) * 12);
    const ContrastiveSums part = loss.measure(pairs, first, count, gradient);
    sum += part.loss;
    num_correct += part.num_correct;
    joined.insert(joined.end(), gradient.begin(), gradient.end());
  }
  CHECK(sum == Approx(all.loss).epsilon(1e-12));
  CHECK(num_correct == all.num_correct);
  CHECK(test::distance(joined, std::vector<double>(whole.begin(), whole.end())) < 1e-6);
}

TEST_CASE("an embedding of zeros has no gradient, one of infinity no finite loss", "[nn]") {
  std::vector<float> scores = {1, 0, 0, 1, 0, 0, 1, 1}, gradient(8);
  const ContrastiveSums zero = ContrastiveLoss(0.1).measure({scores.data(), 2, 2}, 0, 2, gradient);
  CHECK(std::isfinite(zero.loss));
  CHECK(gradient[4] == 0);
  CHECK(gradient[5] == 0);
  scores[0] = INFINITY;
  const ContrastiveSums broken =
      ContrastiveLoss(0.1).measure({scores.data(), 2, 2}, 0, 2, gradient);
  CHECK(!std::isfinite(broken.loss));
}

TEST_CASE("two towers agree with the reference", "[nn]") {
  const int64_t batch = GENERATE(1, 6);
  compare(two_towers(batch), words_of(batch), Compute::Float32, 5e-5);
}

TEST_CASE("two towers of bf16 agree as far as bf16 goes", "[nn]") {
  if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_bf16) {
    return test::skip("this processor has no bf16");
  }
  compare(two_towers(6), words_of(6), Compute::BFloat16, test::kBFloat16Tolerance);
}

TEST_CASE("a second input is read as numbers, too", "[nn]") {
  const std::vector<float> numbers = words_of(9);
  compare(test::make_problem("[3]",
                             "- linear: {name: a, features: 4}\n"
                             "- second_input: {name: s, features: 7}\n"
                             "- linear: {name: b, features: 4}\n- concat: {from: [a, b]}\n",
                             5, "contrastive"),
          std::span(numbers).first(35), Compute::Float32, 5e-5);
}
