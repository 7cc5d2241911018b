#include "runtime/train/network_set.h"

#include "runtime/nn/huge_buffer.h"
#include "tests/support/catch.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr int64_t kUsual = 4, kOther = 3;

double loss_of(NetworkSet& networks, int64_t batch) {
  const size_t samples = size_t(batch);
  const std::vector<float> images(samples * 64, 0.5f);
  const std::vector<uint32_t> labels(samples, 2);
  return networks.get(batch).forward(images, labels).loss_sum / double(batch);
}

/// Losses of a batch of the usual size and of another size, such as that of an epoch's last step.
std::pair<double, double> losses_with(double smoothing, const std::vector<float>& class_weights) {
  NetworkSet networks(parse_model(test::kTinyModel, "tiny.yaml"), kUsual, Network::Mode::Inference);
  HugeBuffer weights(networks.layout()->size());
  initialise(*networks.layout(), 1, weights.floats());
  networks.use_weights(weights.floats());
  networks.set([&](Network& network) {
    network.use_label_smoothing(smoothing);
    network.use_class_weights(class_weights);
  });
  const double usual = loss_of(networks, kUsual);
  return {usual, loss_of(networks, kOther)};
}

}  // namespace

TEST_CASE("batches of all sizes have the same loss, smoothed and weighted alike", "[network_set]") {
  const auto plain = losses_with(0, {});
  const auto [smoothing, class_weights] = GENERATE(
      table<double, std::vector<float>>({{0, {}}, {0.5, {}}, {0, {1, 1, 3}}, {0.5, {1, 2, 3}}}));
  const auto [usual, other] = losses_with(smoothing, class_weights);
  CHECK(other == Approx(usual));
  const bool is_plain = smoothing == 0 && class_weights.empty();
  CHECK((usual == plain.first) == is_plain);
}

TEST_CASE("networks of all sizes are in the timeline, even those built earlier", "[network_set]") {
  NetworkSet networks(parse_model(test::kTinyModel, "tiny.yaml"), kUsual, Network::Mode::Inference);
  HugeBuffer weights(networks.layout()->size());
  initialise(*networks.layout(), 1, weights.floats());
  networks.use_weights(weights.floats());
  Timeline timeline;
  networks.set([&](Network& network) { network.use_timeline(timeline); });
  timeline.start();
  const int64_t batch = GENERATE(kUsual, kOther);
  loss_of(networks, batch);
  CHECK_FALSE(timeline.spans().empty());
}
