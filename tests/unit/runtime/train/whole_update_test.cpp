#include "runtime/train/whole_update.h"

#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Kind = OptimizerOptions::Kind;

namespace {

/// A layer of several blocks, a bias, and a layer of one block.
const std::vector<LayerSlot> kLayers = {{0, 50000, false}, {50000, 16, true}, {50016, 32, false}};
constexpr size_t kNumbers = 50048;

std::vector<float> waves(float scale) {
  std::vector<float> values(kNumbers);
  for (size_t i = 0; i < kNumbers; ++i) values[i] = scale * std::sin(float(i));
  return values;
}

/// The weights of each rank after one step of SGD with rate 1 from ones.
std::vector<std::vector<float>> clipped_step(int ranks, double clip_norm, float gradient) {
  ThreadGroup group(ranks, std::chrono::seconds(60), 1);
  return test::on_ranks(group, ranks, [&](Communicator& comm) {
    const auto sgd = make_optimizer({.momentum = 0});
    UpdateSettings settings;
    settings.clip_norm = clip_norm;
    WholeUpdate update(comm, *sgd, kLayers, settings, StateSharing::Replicas);
    std::vector<float> weights(kNumbers, 1), velocity(kNumbers), gradients(kNumbers, gradient);
    sgd->begin_step(1, 1);
    if (!update.apply(gradients, {weights, {velocity}, 0})) weights.clear();
    return weights;
  });
}

}  // namespace

TEST_CASE("norms are those of whole layers, with the same bits on any number of ranks",
          "[optim][exact]") {
  const std::vector<float> ones(kNumbers, 1), mixed = waves(3);
  const auto norms_on = [&](int ranks) {
    ThreadGroup group(ranks, std::chrono::seconds(60), 2);
    return test::on_ranks(group, ranks, [&](Communicator& comm) {
      return LayerNorms(comm, kLayers).of({ones, mixed});
    });
  };
  const auto alone = norms_on(1)[0];
  CHECK(alone[0] == std::vector<double>{std::sqrt(50000.0), 4, std::sqrt(32.0)});
  CHECK(alone[1][0] == Approx(3 * std::sqrt(25000.0)).epsilon(1e-3));
  for (const int ranks : {2, 3, 4, 8}) {
    for (const auto& norms : norms_on(ranks)) CHECK(norms == alone);
  }
}

TEST_CASE("a rank reads only its own blocks", "[optim]") {
  const auto norms = test::on_ranks(2, [&](Communicator& comm) {
    LayerNorms layers(comm, kLayers);
    std::vector<float> values(kNumbers, NAN);
    for (const Block& block : layers.blocks_of(comm.rank())) {
      std::fill_n(values.begin() + long(block.first), block.count, 2.0f);
    }
    return layers.of({values})[0];
  });
  CHECK(norms[0] == std::vector<double>{2 * std::sqrt(50000.0), 8, 2 * std::sqrt(32.0)});
  CHECK(norms[1] == norms[0]);
}

TEST_CASE("clipping limits the norm of the whole gradient, as in PyTorch", "[optim]") {
  const int ranks = GENERATE(1, 3);
  const double norm = 0.5 * std::sqrt(double(kNumbers));
  for (const auto& weights : clipped_step(ranks, 2, 0.5f)) {
    REQUIRE(weights.size() == kNumbers);
    CHECK(weights[0] == Approx(1 - 0.5 * 2 / (norm + 1e-6)));
    CHECK(weights[kNumbers - 1] == weights[0]);
  }
  CHECK(clipped_step(ranks, norm + 1, 0.5f)[0] == std::vector<float>(kNumbers, 0.5f));
  CHECK(clipped_step(ranks, 2, NAN)[0].empty());  // it is detected
}

TEST_CASE("with shards, a weight that is not finite is detected on every rank", "[optim]") {
  const size_t broken = GENERATE(size_t(1), kNumbers / 2, kNumbers - 1);
  ThreadGroup group(3, std::chrono::seconds(60), 1);
  const auto finite = test::on_ranks(group, 3, [&](Communicator& comm) {
    const auto adam = make_optimizer({.kind = Kind::Adam});
    WholeUpdate update(comm, *adam, kLayers, {}, StateSharing::Shards);
    const WholeUpdate::Extent own = update.extent_of(comm.rank());
    std::vector<float> weights(kNumbers, 1), m(own.count), v(own.count), gradients(kNumbers, 1);
    gradients[broken] = INFINITY;
    adam->begin_step(1, 1);
    return int(update.apply(gradients, {weights, {m, v}, own.first}));
  });
  CHECK(finite == std::vector<int>{0, 0, 0});
}

TEST_CASE("a weight that is not finite is detected in any block of an update", "[optim]") {
  const size_t broken = GENERATE(size_t(1), kNumbers / 2, kNumbers - 1);
  ThreadGroup group(1);
  const auto sgd = make_optimizer({.momentum = 0});
  UpdateSettings settings;
  settings.clip_norm = 1e40;  // nothing is clipped
  WholeUpdate update(group.communicator(0), *sgd, kLayers, settings, StateSharing::Replicas);
  std::vector<float> weights(kNumbers, 1), velocity(kNumbers), gradients(kNumbers, 1);
  gradients[broken] = -3e38f;
  weights[broken] = 3e38f;  // the step exceeds the range of a float
  sgd->begin_step(1, 1);
  CHECK(!update.apply(gradients, {weights, {velocity}, 0}));
}
