#include "runtime/optim/optimizer.h"

#include <cmath>
#include <limits>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "runtime/optim/blocks.h"
#include "tests/support/catch.h"
#include "tests/support/from_pytorch.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Kind = OptimizerOptions::Kind;

namespace {

constexpr auto& kKinds = OptimizerOptions::kKinds;

/// Weights and the optimizer's state for them.
struct Trained {
  std::vector<float> weights;
  std::array<std::vector<float>, Elements::kMostStates> state;

  explicit Trained(std::vector<float> start) : weights(std::move(start)) {
    for (auto& buffer : state) buffer.resize(weights.size());
  }

  Elements part(size_t first, size_t count) {
    const auto of = [&](auto& buffer) { return std::span(buffer).subspan(first, count); };
    return {{of(state[0]), of(state[1])}, of(weights)};
  }
  bool operator==(const Trained&) const = default;
};

/// Takes one step for a whole layer.
bool step(Optimizer& optimizer, Trained& trained, const LayerSlot& slot,
          std::vector<float> gradients) {
  const Elements elements = trained.part(slot.first, slot.count);
  LayerTerms terms;
  if (optimizer.layer_wise()) {
    terms.decays = !slot.is_vector;
    optimizer.direct(gradients, elements, terms);
    if (!slot.is_vector) {
      terms.trust = optimizer.trust_ratio(std::sqrt(sum_of_squares(elements.weights)),
                                          std::sqrt(sum_of_squares(gradients)), terms);
    }
  }
  return optimizer.update(gradients, elements, terms);
}

OptimizerOptions options_of(const Json& json) {
  OptimizerOptions options;
  for (const Kind kind : kKinds) {
    if (json.at("kind") == name(kind)) options.kind = kind;
  }
  options.momentum = json.value("momentum", options.momentum);
  options.nesterov = json.value("nesterov", options.nesterov);
  options.weight_decay = json.value("weight_decay", options.weight_decay);
  options.alpha = json.value("alpha", options.alpha);
  options.trust = json.value("trust", options.trust);
  options.epsilon = json.value("eps", options.epsilon);
  const std::vector<double> betas = json.value("betas", std::vector{0.9, 0.999});
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  return options;
}

/// The output of pytorch_steps.py: the file beside this one, or a new one.
Json pytorch_steps() { return test::from_pytorch("DLFLOW_PYTORCH_STEPS", DLFLOW_PYTORCH_STEPS); }

}  // namespace

TEST_CASE("each optimizer takes the steps of PyTorch and of its paper", "[optim]") {
  const Json expected = pytorch_steps();
  const std::vector<size_t> sizes = expected.at("sizes");
  const LayerSlot weight{0, sizes[0], false}, bias{sizes[0], sizes[1], true};
  std::set<std::string> untested;
  for (const Kind kind : kKinds) untested.insert(name(kind));
  for (const Json& json : expected.at("cases")) {
    untested.erase(json.at("kind"));
    INFO(json.at("kind") << " " << json.value("weight_decay", 0.0));
    const auto optimizer = make_optimizer(options_of(json));
    Trained trained(expected.at("start").get<std::vector<float>>());
    for (uint64_t number = 1; number <= 20; ++number) {
      optimizer->begin_step(json.at("lr").get<double>() / (1 + double(number - 1) / 10), number);
      const std::vector<float> all = expected.at("gradients").at(number - 1);
      CHECK(step(*optimizer, trained, weight, {all.begin(), all.begin() + long(sizes[0])}));
      CHECK(step(*optimizer, trained, bias, {all.begin() + long(sizes[0]), all.end()}));
      const auto then = json.find("after_" + std::to_string(number));
      if (then == json.end()) continue;
      for (size_t i = 0; i < all.size(); ++i) {
        CHECK(double(trained.weights[i]) ==
              Approx(then->at(i).get<double>()).epsilon(0).margin(1e-6));
      }
    }
  }
  CHECK(untested == std::set<std::string>());  // pytorch_steps.py has a case for each
}

TEST_CASE("the documents and the example name every optimizer", "[optim]") {
  const std::string page = read_file(DLFLOW_DOCS "/contributor/runtime.md");
  std::string state = read_file(DLFLOW_DOCS "/contributor/checkpoint-format.md");
  state = state.substr(state.find("optimizer.safetensors"));
  state.resize(state.find("compression.safetensors"));
  const std::string example = read_file(DLFLOW_DOCS "/../workflows/optimizers.yaml");
  for (const Kind kind : kKinds) {
    CHECK_THAT(page, Catch::Contains("| `" + name(kind) + "` |"));
    CHECK_THAT(state, Catch::Contains(name(kind)));
    CHECK_THAT(example, Catch::Contains("optimizer: " + name(kind) + ","));
  }
}

TEST_CASE("an update in parts has the bits of a whole update", "[optim]") {
  const Kind kind = GENERATE(from_range(kKinds));
  const bool nesterov = GENERATE(false, true);
  constexpr size_t kElements = 37;  // whole vectors and a rest
  std::vector<float> gradients(kElements), start(kElements);
  for (size_t i = 0; i < kElements; ++i) gradients[i] = std::sin(start[i] = float(i));
  OptimizerOptions options;
  options.kind = kind;
  options.nesterov = nesterov;
  options.weight_decay = 0.01;
  const auto optimizer = make_optimizer(options);
  Trained whole(start), parts(start);
  const auto update = [&](Trained& trained, size_t first, size_t count) {
    std::vector<float> part(gradients.begin() + long(first),
                            gradients.begin() + long(first + count));
    const Elements elements = trained.part(first, count);
    optimizer->direct(part, elements, {});
    CHECK(optimizer->update(part, elements));
  };
  for (uint64_t number = 1; number <= 2; ++number) {
    optimizer->begin_step(0.1, number);
    update(whole, 0, kElements);
    for (size_t first = 0; first < kElements; first += 5) {
      update(parts, first, std::min<size_t>(5, kElements - first));
    }
  }
  CHECK(parts == whole);
  CHECK(whole.weights != start);
}

TEST_CASE("padding that is zero stays zero", "[optim]") {
  for (const Kind kind : kKinds) {
    const auto optimizer = make_optimizer({.kind = kind, .weight_decay = 0.5});
    optimizer->begin_step(0.1, 1);
    Trained trained(std::vector<float>(16));
    trained.weights[0] = 1;
    std::vector<float> gradients(16);
    gradients[0] = 1;
    CHECK(step(*optimizer, trained, {0, 16, false}, gradients));
    CHECK(trained.weights[0] != 1);
    CHECK(std::vector(trained.weights.begin() + 1, trained.weights.end()) ==
          std::vector<float>(15));
  }
}

TEST_CASE("a weight that is not finite is detected at any position", "[optim]") {
  const Kind kind = GENERATE(from_range(kKinds));
  const size_t place = GENERATE(0, 5, 36);
  const float gradient =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  const bool nesterov = GENERATE(false, true);
  const auto optimizer = make_optimizer({.kind = kind, .nesterov = nesterov});
  optimizer->begin_step(0.1, 1);
  Trained trained(std::vector<float>(37, 1));
  std::vector<float> gradients(37, -1);
  CHECK(step(*optimizer, trained, {0, 37, false}, gradients));
  gradients[place] = gradient;
  CHECK_FALSE(step(*optimizer, trained, {0, 37, false}, gradients));
}

TEST_CASE("a gradient that overflows a weight is detected", "[optim]") {
  const double rate = GENERATE(0.0, 2.0);
  const auto optimizer = make_optimizer({.momentum = 0});
  optimizer->begin_step(rate, 1);
  Trained trained(std::vector<float>(37, 1));
  std::vector<float> gradients(37, -1);
  gradients[36] = 3e38f;
  CHECK(step(*optimizer, trained, {0, 37, false}, gradients) == (rate == 0));
}

TEST_CASE("a layer has its own rate and decay, or no decay", "[optim]") {
  const Kind kind = GENERATE(from_range(kKinds));
  const auto step_of = [&](double rate, double decay, const LayerTerms& layer) {
    const auto optimizer = make_optimizer({.kind = kind, .weight_decay = decay});
    Trained trained(std::vector<float>(16, 2));
    std::vector<float> gradients(16, 1);
    optimizer->begin_step(rate, 1);
    optimizer->direct(gradients, trained.part(0, 16), layer);
    CHECK(optimizer->update(gradients, trained.part(0, 16), layer));
    return trained.weights[0];
  };
  const float plain = step_of(0.5, 0.25, {});
  CHECK(step_of(0.25, 0.25, {.trust = 2}) == plain);
  CHECK(step_of(0.5, 0.125, {.weight_decay = 0.25}) == plain);
  CHECK(step_of(0.5, 0.25, {.decays = false, .weight_decay = 0.25}) == step_of(0.5, 0, {}));
  CHECK(step_of(0.25, 0.25, {}) != plain);
}

TEST_CASE("the trust ratio of a layer includes its own decay", "[optim]") {
  const auto lars = make_optimizer({.kind = Kind::Lars, .weight_decay = 0.5, .trust = 0.25});
  CHECK(lars->trust_ratio(2, 3, {}) == Approx(0.25 * 2 / (3 + 0.5 * 2)));
  CHECK(lars->trust_ratio(2, 3, {.weight_decay = 1.5}) == Approx(0.25 * 2 / (3 + 1.5 * 2)));
  CHECK(lars->trust_ratio(2, 3, {.decays = false}) == Approx(0.25 * 2 / 3));
  CHECK(lars->trust_ratio(0, 3, {}) == 1);
  CHECK(lars->trust_ratio(2, 0, {}) == 1);
  const auto lamb = make_optimizer({.kind = Kind::Lamb});
  CHECK(lamb->trust_ratio(2, 4, {}) == 0.5);
  CHECK(lamb->trust_ratio(0, 4, {}) == 1);
  CHECK(lamb->trust_ratio(2, 0, {}) == 1);
}

TEST_CASE("a layer that is all zeros still learns", "[optim]") {
  const Kind kind = GENERATE(Kind::Lars, Kind::Lamb);
  const auto optimizer = make_optimizer({.kind = kind, .weight_decay = 0.1});
  optimizer->begin_step(0.1, 1);
  Trained trained(std::vector<float>(16));
  CHECK(step(*optimizer, trained, {0, 16, false}, std::vector<float>(16, 1)));
  CHECK(trained.weights[0] < 0);
  CHECK(trained.weights[0] >= -0.1001f);
}
