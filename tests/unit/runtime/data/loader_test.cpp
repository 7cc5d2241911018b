#include "runtime/data/loader.h"

#include <thread>

#include "base/error.h"
#include "runtime/data/shard.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Sample i of shape (2, 3, 4) has label i and pixels i, i+1, ...
template <typename T = uint8_t>
Dataset numbered(uint32_t num_samples) {
  std::vector<T> pixels;
  std::vector<uint32_t> labels;
  for (uint32_t i = 0; i < num_samples; ++i) {
    labels.push_back(i);
    for (uint32_t k = 0; k < 24; ++k) pixels.push_back(T(i + k));
  }
  return make_dataset({2, 3, 4}, num_samples, std::move(pixels), std::move(labels));
}

LoaderOptions options_for(const Dataset& dataset) {
  LoaderOptions options;
  options.division.global_batch = 8;
  options.seed = 5;
  options.normalization = normalization_of(dataset);
  return options;
}

/// A copy of everything in a batch, including the memory that it refers to.
struct Copy {
  std::vector<float> images;
  std::vector<uint32_t> labels;
  size_t global_samples;
  uint64_t epoch, step;
  bool operator==(const Copy&) const = default;
};

Copy copy(const LocalBatch& batch) {
  Copy all{{}, {}, batch.global_samples, batch.epoch, batch.step};
  for (const Leaf& leaf : batch.leaves) {
    all.images.insert(all.images.end(), leaf.images.begin(), leaf.images.end());
    all.labels.insert(all.labels.end(), leaf.labels.begin(), leaf.labels.end());
  }
  return all;
}

std::vector<Copy> take(Loader& loader, int num_batches) {
  std::vector<Copy> batches;
  for (int i = 0; i < num_batches; ++i) batches.push_back(copy(loader.next()));
  return batches;
}

}  // namespace

TEST_CASE("batches follow the epoch's permutation, epoch after epoch", "[data]") {
  const Dataset dataset = numbered(20);
  Loader loader(dataset, options_for(dataset));
  CHECK(loader.steps_per_epoch() == 3);
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<uint32_t> labels;
    for (uint64_t step = 0; step < 3; ++step) {
      const LocalBatch batch = loader.next();
      CHECK(batch.epoch == epoch);
      CHECK(batch.step == step);
      REQUIRE(batch.leaves.size() == 1);
      const Leaf& leaf = batch.leaves[0];
      CHECK(leaf.count() == (step < 2 ? 8 : 4));
      CHECK(batch.global_samples == leaf.count());
      CHECK(reinterpret_cast<uintptr_t>(leaf.images.data()) % 64 == 0);
      labels.insert(labels.end(), leaf.labels.begin(), leaf.labels.end());
    }
    CHECK(labels == epoch_permutation(20, 5, epoch));
  }
}

TEST_CASE("without shuffling the samples come in the order of the data set", "[data]") {
  const Dataset dataset = numbered(3);
  LoaderOptions options = options_for(dataset);
  options.shuffle = false;
  options.normalization = {{2, 1}, {0.5f, 0}};
  Loader loader(dataset, options);
  const Leaf batch = loader.next().leaves[0];
  CHECK(std::vector(batch.labels.begin(), batch.labels.end()) == std::vector<uint32_t>{0, 1, 2});
  CHECK(batch.images[0] == 0.5f);
  CHECK(batch.images[24] == 2.5f);        // sample 1, channel 0: 1 * 2 + 0.5
  CHECK(batch.images[24 + 12] == 13.0f);  // sample 1, channel 1: 13 * 1 + 0
}

TEST_CASE("the leaves of all ranks form the batch, each aligned to a cache line", "[data]") {
  const size_t num_leaves = 8;
  const size_t leaves_per_rank = GENERATE(1, 2, 3, 8);
  const Dataset dataset = numbered(21);  // the last batch: 5 samples, fewer than 8 leaves
  LoaderOptions options = options_for(dataset);
  options.augmentation = {2, true};
  Loader whole(dataset, options);
  std::vector<std::unique_ptr<Loader>> loaders;
  options.division.num_leaves = num_leaves;
  for (size_t first = 0; first < num_leaves; first += leaves_per_rank) {
    options.first_leaf = first;
    options.own_leaves = std::min(leaves_per_rank, num_leaves - first);
    loaders.push_back(std::make_unique<Loader>(dataset, options));
  }
  for (int step = 0; step < 6; ++step) {
    const Copy expected = copy(whole.next());
    Copy joined{{}, {}, expected.global_samples, expected.epoch, expected.step};
    for (auto& loader : loaders) {
      const LocalBatch batch = loader->next();
      for (const Leaf& leaf : batch.leaves) {
        CHECK(reinterpret_cast<uintptr_t>(leaf.images.data()) % 64 == 0);
      }
      const Copy part = copy(batch);
      CHECK(part.global_samples == expected.global_samples);
      joined.images.insert(joined.images.end(), part.images.begin(), part.images.end());
      joined.labels.insert(joined.labels.end(), part.labels.begin(), part.labels.end());
    }
    CHECK(joined == expected);
  }
}

TEST_CASE("a thread that loads ahead delivers the same samples as loading on demand", "[data]") {
  const Dataset dataset = numbered(50);
  LoaderOptions options = options_for(dataset);
  options.augmentation = {1, true};
  Loader on_demand(dataset, options);
  options.prefetch = GENERATE(1, 2, 5);
  Loader ahead(dataset, options);
  CHECK(take(ahead, 40) == take(on_demand, 40));
}

TEST_CASE("a loader goes on from any position with the same bits", "[data]") {
  const Dataset dataset = numbered(20);
  LoaderOptions options = options_for(dataset);
  options.augmentation = {1, true};
  options.prefetch = GENERATE(0, 2);
  Loader uninterrupted(dataset, options);
  const std::vector<Copy> all = take(uninterrupted, 9);

  Loader resumed(dataset, options);
  resumed.seek(1, 1);
  CHECK(take(resumed, 5) == std::vector(all.begin() + 4, all.end()));
  resumed.seek(0, 3);  // the end of an epoch is the start of the next
  CHECK(take(resumed, 1) == std::vector(all.begin() + 3, all.begin() + 4));
  CHECK_THROWS_AS(resumed.seek(0, 4), Error);
}

TEST_CASE("a loader can be thrown away at any time", "[data]") {
  const Dataset dataset = numbered(20);
  LoaderOptions options = options_for(dataset);
  options.prefetch = 3;
  const int num_batches = GENERATE(0, 1, 7);
  Loader loader(dataset, options);
  CHECK(take(loader, num_batches).size() == size_t(num_batches));
}

TEST_CASE("floating-point pixels are loaded like bytes", "[data]") {
  const Dataset bytes = numbered(10), floats = numbered<float>(10);
  LoaderOptions options = options_for(bytes);
  options.augmentation = {1, true};
  Loader from_bytes(bytes, options), from_floats(floats, options);
  CHECK(take(from_floats, 4) == take(from_bytes, 4));
}

TEST_CASE("samples get the same changes on any number of threads", "[data][threads]") {
  const Dataset dataset = numbered(50);
  LoaderOptions options = options_for(dataset);
  options.augmentation = {2, true};
  options.division.num_leaves = 4;
  options.own_leaves = 4;
  Loader alone(dataset, options);
  const std::vector<Copy> expected = take(alone, 14);  // two epochs
  const size_t num_threads = GENERATE(1, 2, 4);
  options.own_leaves = 4 / num_threads;
  std::vector<std::vector<Copy>> parts(num_threads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([&, own = options, i]() mutable {
        own.first_leaf = i * own.own_leaves;
        own.prefetch = i % 2;
        Loader loader(dataset, own);
        parts[i] = take(loader, 14);
      });
    }
  }
  for (size_t step = 0; step < expected.size(); ++step) {
    Copy joined = {
        {}, {}, expected[step].global_samples, expected[step].epoch, expected[step].step};
    for (const auto& part : parts) {
      const Copy& own = part[step];
      joined.images.insert(joined.images.end(), own.images.begin(), own.images.end());
      joined.labels.insert(joined.labels.end(), own.labels.begin(), own.labels.end());
    }
    CHECK(joined == expected[step]);
  }
}

namespace {

/// Sample i of (1, 2, 3) has pixels of 10 i, and the classes i, 1, 2, 3, none, 0.
template <typename T>
Dataset masked(uint32_t num_samples) {
  std::vector<T> rows;
  for (uint32_t i = 0; i < num_samples; ++i) {
    for (int k = 0; k < 6; ++k) rows.push_back(T(10 * i));
    for (const uint32_t c : {i, 1u, 2u, 3u, kNoClass, 0u}) rows.push_back(T(c));
  }
  Dataset dataset{
      {1, 2, 3}, 8, PixelRows<T>(std::move(rows), 12), std::vector<uint32_t>(num_samples)};
  dataset.has_masks = true;
  return dataset;
}

}  // namespace

TEST_CASE("a leaf has the masks of its samples, and pixels alone are normalised", "[data]") {
  const auto check = [](const Dataset& dataset) {
    LoaderOptions options;
    options.division.global_batch = 4;
    options.shuffle = false;
    options.normalization = {{0.1f}, {0.5f}};
    Loader loader(dataset, options);
    loader.next();
    const Leaf leaf = loader.next().leaves[0];
    REQUIRE(leaf.count() == 2);
    REQUIRE(leaf.targets.size() == 12);
    for (size_t i = 0; i < 2; ++i) {
      const float sample = float(4 + i);
      CHECK(leaf.images[i * 6] == Approx(sample + 0.5));
      const std::vector<float> mask(leaf.targets.begin() + long(i * 6),
                                    leaf.targets.begin() + long(i * 6 + 6));
      CHECK(mask == std::vector<float>{sample, 1, 2, 3, 255, 0});
    }
  };
  check(masked<uint8_t>(6));
  check(masked<float>(6));
}

TEST_CASE("a mask is changed together with its picture", "[data]") {
  const Dataset dataset = masked<uint8_t>(6);
  LoaderOptions options;
  options.division.global_batch = 6;
  options.shuffle = false;
  options.normalization = {{1.0f}, {0.0f}};
  options.augmentation.flip = true;
  Loader loader(dataset, options);
  const Leaf leaf = loader.next().leaves[0];
  size_t flipped = 0;
  for (uint32_t i = 0; i < 6; ++i) {
    const bool flips = draw_change(options.augmentation, dataset.shape, 0, 0, i).flip;
    CHECK(leaf.targets[i * 6 + (flips ? 2 : 0)] == float(i));
    flipped += flips ? 1 : 0;
  }
  CHECK(flipped > 0);
  CHECK(flipped < 6);
}

TEST_CASE("the normalisation is computed from pixels, without the masks", "[data]") {
  const Normalization measured = normalization_of(masked<uint8_t>(2));  // the pixels are 0 and 10
  CHECK(measured.scale[0] == Approx(0.2));
  CHECK(measured.shift[0] == Approx(-1));
}

TEST_CASE("an unknown class ends the reading of a mask", "[data]") {
  const Dataset dataset = masked<uint8_t>(9);  // sample 8 has class 8
  LoaderOptions options;
  options.division.global_batch = 9;
  options.shuffle = false;
  options.normalization = {{1.0f}, {0.0f}};
  Loader loader(dataset, options);
  CHECK_THROWS_WITH(loader.next(),
                    Catch::Contains("sample 8 has 8 in its mask, but the data has 8 classes"));
}
