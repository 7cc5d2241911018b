#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "runtime/nn/network.h"

/// activation_memory MODEL.yaml BATCH: the time of a step of one rank if the results of layers have
/// less memory and are recomputed.
namespace dlflow::runtime {
namespace {

using std::chrono::steady_clock;

constexpr int kSteps = 5;

/// The fastest of kSteps forward and backward passes, in seconds.
double seconds_per_step(Network& network, const Model& model, int64_t batch) {
  int64_t per_sample = 1;
  for (const int64_t size : model.input) per_sample *= size;
  const float number = model.takes_tokens() ? 1.0f : 0.5f;
  const std::vector<float> images(size_t(batch * per_sample), number);
  const std::vector<uint32_t> labels(size_t(batch), 0);
  HugeBuffer weights(network.layout()->size()), gradients(network.layout()->size());
  for (size_t i = 0; i < weights.size(); ++i) weights.data()[i] = float(i % 7) * 0.01f;
  network.use_weights(weights.floats());
  double fastest = 1e9;
  for (int step = 0; step < kSteps; ++step) {
    const auto begin = steady_clock::now();
    network.forward(images, labels);
    network.backward(gradients.floats(), 1);
    const std::chrono::duration<double> taken = steady_clock::now() - begin;
    fastest = std::min(fastest, taken.count());
  }
  return fastest;
}

void measure(const std::string& file, int64_t batch) {
  const Model model = parse_model(read_file(file), file);
  const auto built = [&](size_t most_bytes) {
    return Network(model, batch, Network::Mode::Training, nullptr, Compute::Float32, most_bytes);
  };
  const size_t usual = built(SIZE_MAX).value_bytes();
  double first = 0;
  std::printf("%s, batch %lld\n%10s  %10s  %12s  %9s  %7s\n", model.name.c_str(),
              static_cast<long long>(batch), "budget", "memory", "computed", "ms a step", "ratio");
  for (const size_t percent : {100, 75, 50, 40, 30, 20}) {
    std::optional<Network> network;
    try {
      network.emplace(built(usual * percent / 100));
    } catch (const Error&) {  // no segmentation fits
      std::printf("%9zu%%  does not fit\n", percent);
      return;
    }
    const double seconds = seconds_per_step(*network, model, batch);
    if (percent == 100) first = seconds;
    std::printf("%9zu%%  %10s  %10.0f%% twice  %9.1f  %7.2f\n", percent,
                format_size(network->value_bytes()).c_str(), 100 * network->recomputed_share(),
                1000 * seconds, seconds / first);
  }
}

}  // namespace
}  // namespace dlflow::runtime

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: activation_memory MODEL.yaml BATCH\n");
    return 2;
  }
  dlflow::runtime::measure(argv[1], std::stol(argv[2]));
  return 0;
}
