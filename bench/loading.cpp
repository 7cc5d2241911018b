// Pictures per second of the loader: JPEG decoded, a random resized crop, mirrored, normalised.
// usage: loading FOLDER THREADS SECONDS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "runtime/data/loader.h"

using namespace dlflow::runtime;

int main(int argc, char** argv) try {
  using Clock = std::chrono::steady_clock;
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER THREADS SECONDS\n", argv[0]);
    return 2;
  }
  const Dataset dataset = open_dataset(argv[1], Split::Train);
  LoaderOptions options;
  options.division.global_batch = 64;
  options.division.last_batch = LastBatch::Drop;
  options.seed = 1;
  options.normalization = {{0.017f, 0.017f, 0.017f}, {-2, -2, -2}};
  options.augmentation.resized_crop = 0.08;
  options.augmentation.flip = true;
  options.threads = size_t(std::atoi(argv[2]));
  Loader loader(dataset, options);
  loader.next();  // the first call allocates memory
  const auto begin = Clock::now();
  const double limit = std::atof(argv[3]);
  double seconds = 0, sum = 0;
  size_t pictures = 0;
  while (seconds < limit) {
    const LocalBatch batch = loader.next();
    for (const Leaf& leaf : batch.leaves) sum += double(leaf.images[0]);
    pictures += batch.global_samples;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::printf("%.1f\n", double(pictures) / seconds);
  return sum == sum ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
