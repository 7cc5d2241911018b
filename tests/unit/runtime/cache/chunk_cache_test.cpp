#include "runtime/cache/chunk_cache.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <numeric>
#include <set>
#include <thread>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "base/file.h"
#include "runtime/cache/cache_room.h"
#include "runtime/cache/scratch_slots.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/loader.h"
#include "runtime/data/sharded_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/unit/runtime/cache/stored_chunks.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

namespace fs = std::filesystem;

constexpr size_t kBatch = 16;

LoaderOptions loader_options(const Dataset& dataset) {
  LoaderOptions options;
  options.division.global_batch = kBatch;
  options.division.num_leaves = 4;
  options.own_leaves = 4;
  options.seed = 7;
  options.augmentation = {2, true};
  options.normalization = normalization_of(dataset);
  return options;
}

VisitOrder training_order(const ChunkedDataset& data, uint64_t epochs, int ranks = 1) {
  VisitOrder order;
  order.seed = 7;
  order.num_epochs = epochs;
  order.train_chunks = SampleChunks(data, data.dataset());
  order.division = {order.train_chunks.size(), kBatch, 4};
  for (int rank = 0; rank < ranks; ++rank) {
    const size_t first = 4 * size_t(rank) / size_t(ranks),
                 end = 4 * size_t(rank + 1) / size_t(ranks);
    order.leaves.push_back({first, end - first});
    order.batches.push_back({});
  }
  return order;
}

/// What the ranks of a node share.
struct Node {
  ChunkMemory::Dimensions shape;
  SharedPlan::Dimensions planned;
  AlignedFloats memory, plan;
  std::vector<std::string> warnings;
  std::unique_ptr<ScratchRoom> room;

  Node(size_t slots, int ranks = 1)
      : shape{slots, kChunk, ranks},
        planned{kChunks, ranks},
        memory(make_aligned_floats(ChunkMemory::bytes_for(shape) / sizeof(float) + 1)),
        plan(make_aligned_floats(SharedPlan::bytes_for(planned) / sizeof(float) + 1)) {}

  CacheOptions options(int rank = 0) {
    CacheOptions options;
    options.memory = reinterpret_cast<std::byte*>(memory.get());
    options.shape = shape;
    options.plan_memory = reinterpret_cast<std::byte*>(plan.get());
    options.chunks_per_step = planned.chunks_per_step;
    options.rank = rank;
    options.warn = [this](const std::string& text) { warnings.push_back(text); };
    if (room) {
      options.scratch_file = room->file();
      options.scratch_slots = room->num_slots();
    }
    return options;
  }
};

/// The images and labels of so many batches.
std::vector<float> take(Loader& loader, size_t batches) {
  std::vector<float> all;
  for (size_t i = 0; i < batches; ++i) {
    for (const Leaf& leaf : loader.next().leaves) {
      all.insert(all.end(), leaf.images.begin(), leaf.images.end());
      all.insert(all.end(), leaf.labels.begin(), leaf.labels.end());
    }
  }
  return all;
}

constexpr size_t kSteps = (kSamples + kBatch - 1) / kBatch;

/// What training looks at in all epochs, through a cache; and what it looks like without one.
std::vector<float> through_cache(const Stored& stored, const ChunkedDataset& data,
                                 ChunkSource& source, Node& node, uint64_t epochs,
                                 size_t prefetch = 0) {
  ChunkCache cache(data, source, training_order(data, epochs), node.options());
  cache.start(0, 0);
  LoaderOptions options = loader_options(stored.original);
  options.images = &cache.training();
  options.prefetch = prefetch;
  Loader loader(data.dataset(), options);
  return take(loader, epochs * kSteps);
}

std::vector<float> without_cache(const Stored& stored, uint64_t epochs) {
  Loader loader(stored.original, loader_options(stored.original));
  return take(loader, epochs * kSteps);
}

}  // namespace

TEST_CASE("a split knows the chunk of each image, in one file and in shards", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CHECK(data.dataset() == stored.original);
  CHECK(data.num_chunks() == 50);
  const auto& images = std::get<Images<uint8_t>>(data.dataset().pixels);
  const ImagePlace place = data.place_of(images[13].data());
  CHECK(place.chunk == 3);
  CHECK(place.offset == kImage);
  CHECK(data.chunk(3).offset + place.offset == stored.offset_of(13));

  const test::TempDir folder;
  write_sharded_dataset(folder.path(), "train", source_of(stored.original), 3);
  const ChunkedDataset shards(folder.path(), Split::Train);
  CHECK(shards.dataset() == stored.original);
  CHECK(shards.num_chunks() == 3);
  CHECK(shards.content_hash() != data.content_hash());
}

TEST_CASE("data without hashes of its parts is refused with what to do", "[cache]") {
  const test::TempDir folder;
  folder.write("train-images-idx3-ubyte", "");
  folder.write("train-labels-idx1-ubyte", "");
  CHECK_THROWS_WITH(
      ChunkedDataset(folder.path(), Split::Train),
      Catch::Contains("IDX files have no hashes") && Catch::Contains("dlflow data pack"));
}

TEST_CASE("what comes through a cache has the bits of what does not, and is read once",
          "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(50);
  const size_t prefetch = GENERATE(0, 2);
  CHECK(through_cache(stored, data, source, node, 3, prefetch) == without_cache(stored, 3));
  CHECK(source.reads() == 50);
  CHECK(node.warnings.empty());
}

TEST_CASE("a set that is larger than its memory is trained with the same bits",
          "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  const size_t slots = GENERATE(16, 25, 40);
  Node node(slots);
  CHECK(through_cache(stored, data, source, node, 3) == without_cache(stored, 3));
  CHECK(source.reads() > 50);

  SECTION("what goes to the node's disk is not read from the source again") {
    CountingSource again(data);
    Node with_disk(slots);
    with_disk.room = std::make_unique<ScratchRoom>(NodeDisk{stored.disk.path(), 0}, 50, kChunk);
    CHECK(through_cache(stored, data, again, with_disk, 3) == without_cache(stored, 3));
    CHECK(again.reads() == 50);
    CHECK(with_disk.warnings.empty());
  }
}

TEST_CASE("ranks of a node share one copy, and each reads its share", "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const int ranks = GENERATE(1, 2, 3);
  const size_t slots = GENERATE(20, 50), loader_threads = GENERATE(0, 2);
  Node node(slots, ranks);
  std::atomic<int> reads = 0, through = 0;
  std::vector<std::vector<float>> parts(static_cast<size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        CountingSource source(data);
        const VisitOrder order = training_order(data, 2, ranks);
        const IndexRange leaves = order.leaves[size_t(rank)];
        ChunkCache cache(data, source, order, node.options(rank));
        cache.start(0, 0);
        LoaderOptions options = loader_options(stored.original);
        options.first_leaf = leaves.first;
        options.own_leaves = leaves.count;
        options.images = &cache.training();
        options.prefetch = loader_threads;
        Loader loader(data.dataset(), options);
        parts[size_t(rank)] = take(loader, 2 * kSteps);
        for (++through; through < ranks;) std::this_thread::yield();
        reads += source.reads();
      });
    }
  }
  LoaderOptions options = loader_options(stored.original);
  for (int rank = 0; rank < ranks; ++rank) {
    const IndexRange leaves = training_order(data, 2, ranks).leaves[size_t(rank)];
    options.first_leaf = leaves.first;
    options.own_leaves = leaves.count;
    Loader loader(stored.original, options);
    CHECK(parts[size_t(rank)] == take(loader, 2 * kSteps));
  }
  if (slots == 50) CHECK(reads == 50);
}

TEST_CASE("a rank may be far ahead of another of its node, if memory holds all",
          "[cache][threads]") {
  constexpr size_t kEpochs = 12;
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(kChunks, 2);
  const VisitOrder order = training_order(data, kEpochs, 2);
  ChunkCache first(data, source, order, node.options(0));
  ChunkCache second(data, source, order, node.options(1));
  first.start(0, 0);
  second.start(0, 0);
  const auto all_of = [&](size_t rank, StepImages* images) {
    LoaderOptions options = loader_options(stored.original);
    options.first_leaf = order.leaves[rank].first;
    options.own_leaves = order.leaves[rank].count;
    options.images = images;
    Loader loader(images ? data.dataset() : stored.original, options);
    return take(loader, kEpochs * kSteps);
  };
  const size_t ahead = GENERATE(0, 1), behind = 1 - ahead;
  ChunkCache& fast = ahead == 0 ? first : second;
  ChunkCache& slow = ahead == 0 ? second : first;
  CHECK(all_of(ahead, &fast.training()) == all_of(ahead, nullptr));
  CHECK(all_of(behind, &slow.training()) == all_of(behind, nullptr));
  CHECK(source.reads() == kChunks);
}

/// A step of training, as caches and loaders are told it.
struct Place {
  uint64_t epoch = 0, step = 0;
};

/// Through a cache that is started at `start`, so many batches from `first` on are those without.
void check_batches_from(Place start, Place first, uint64_t epochs, size_t batches,
                        size_t prefetch) {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(30);
  ChunkCache cache(data, source, training_order(data, epochs), node.options());
  cache.start(start.epoch, start.step);
  LoaderOptions options = loader_options(stored.original);
  Loader expected(stored.original, options);
  options.images = &cache.training();
  options.prefetch = prefetch;
  Loader loader(data.dataset(), options);
  loader.seek(first.epoch, first.step);
  expected.seek(first.epoch, first.step);
  CHECK(take(loader, batches) == take(expected, batches));
}

TEST_CASE("a cache begins in the middle of an epoch, and ends at any time", "[cache][threads]") {
  check_batches_from({1, 5}, {1, 5}, 3, 10, GENERATE(0, 2));
}

TEST_CASE("a cache that begins at the end of an epoch goes on with the next", "[cache][threads]") {
  check_batches_from({0, kSteps}, {1, 0}, 2, kSteps, 0);
}

TEST_CASE("training and validation share the memory", "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  VisitOrder order = training_order(data, 3);
  std::vector<uint32_t> first(50);
  std::iota(first.begin(), first.end(), 0u);
  order.validation_chunks = {data, data.dataset().select(Subset::only({first, nullptr}))};
  order.validation_batch = 9;
  order.batches = {{0, 6}};
  Node node(20);
  ChunkCache cache(data, source, order, node.options());
  cache.start(0, 0);
  LoaderOptions options = loader_options(stored.original);
  LoaderOptions in_order = options;
  in_order.shuffle = false;
  in_order.augmentation = {};
  in_order.division.global_batch = 9;
  Loader expected(stored.original, options);
  options.images = &cache.training();
  options.prefetch = 2;  // prepares the next epoch while this one is validated
  Loader loader(data.dataset(), options);
  for (int epoch = 0; epoch < 3; ++epoch) {
    CHECK(take(loader, kSteps) == take(expected, kSteps));
    Loader expected_validation(stored.original, in_order);
    LoaderOptions validation = in_order;
    validation.images = &cache.validation();
    Loader validates(data.dataset(), validation);
    CHECK(take(validates, 5) == take(expected_validation, 5));  // the last one is of 5 samples
    CHECK_NOTHROW(cache.validation().begin(0, 5));
    cache.validation().end();
  }
}

TEST_CASE("a cache serves validation alone", "[cache][threads]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  VisitOrder order = training_order(data, 1);
  order.division.num_samples = 0;
  order.train_chunks = {};
  order.validation_chunks = {data, data.dataset()};
  order.validation_batch = kBatch;
  order.batches = {{0, kSteps}};
  Node node(20);
  ChunkCache cache(data, source, order, node.options());
  cache.start(0, 0);
  LoaderOptions options = loader_options(stored.original);
  options.shuffle = false;
  Loader expected(stored.original, options);
  options.images = &cache.validation();
  Loader validates(data.dataset(), options);
  CHECK(take(validates, kSteps) == take(expected, kSteps));
}

TEST_CASE("a part that comes damaged is read again, and told", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  source.harm(1);
  Node node(50);
  CHECK(through_cache(stored, data, source, node, 1) == without_cache(stored, 1));
  CHECK(source.reads() == 51);
  CHECK(node.warnings == std::vector<std::string>{stored.file().string() +
                                                  ": a part came damaged, and is read once more"});
}

TEST_CASE("a part that is damaged where it lies ends the run and names the file", "[cache]") {
  const Stored stored;
  test::damage(stored.file(), stored.offset_of(21));
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(50);
  const uint64_t begin = stored.offset_of(20);
  CHECK_THROWS_WITH(through_cache(stored, data, source, node, 1),
                    stored.file().string() + ": bytes " + std::to_string(begin) + " to " +
                        std::to_string(begin + kChunk - 1) +
                        " are damaged: their SHA-256 does not hold, twice; copy it again");
}

TEST_CASE("what the node's disk has damaged is read from the source, and told once", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(16);
  node.room = std::make_unique<ScratchRoom>(NodeDisk{stored.disk.path(), 0}, 50, kChunk);
  {
    ChunkCache cache(data, source, training_order(data, 3), node.options());
    cache.start(0, 0);
    LoaderOptions options = loader_options(stored.original);
    options.images = &cache.training();
    Loader loader(data.dataset(), options);
    std::vector<float> seen = take(loader, kSteps);
    for (size_t slot = 0; slot < 50; ++slot) test::damage(node.room->file(), slot * kChunk);
    const std::vector<float> rest = take(loader, 2 * kSteps);
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(seen == without_cache(stored, 3));
    CHECK(cache.traffic().damaged > 0);
  }
  CHECK(node.warnings == std::vector<std::string>{node.room->file().string() +
                                                  ": a part was damaged, and is read from where "
                                                  "it came from"});
}

TEST_CASE("a memory that is too small for a step is refused with what would do", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const VisitOrder order = training_order(data, 1);
  CHECK(divide_budget({kBatch * kChunk, 0}, data, order) == CacheRoom{kBatch, 0, 0, 0});
  CHECK(divide_budget({kBatch * kChunk, 90 * kChunk}, data, order) == CacheRoom{kBatch, 50, 0, 0});
  CHECK(divide_budget({uint64_t{1} << 40, 1000}, data, order) == CacheRoom{50, 0, 0, 0});
  CHECK_THROWS_WITH(divide_budget({kBatch * kChunk - 1, 0}, data, order),
                    Catch::Contains("'cache.memory' of 4.0 KiB is too small") &&
                        Catch::Contains("give it at least 4.0 KiB"));
}

TEST_CASE("nodes that share keep their part first, in memory and then on the disk", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  const VisitOrder order = training_order(data, 1);
  const auto room = [&](size_t memory, size_t disk, size_t node, size_t num_nodes) {
    return divide_budget({memory * kChunk, disk * kChunk}, data, order, node, num_nodes);
  };
  CHECK(room(50, 0, 0, 3) == CacheRoom{33, 0, 17, 0});  // all of it, once
  CHECK(room(50, 9, 2, 3) == CacheRoom{34, 0, 16, 0});
  CHECK(room(40, 0, 0, 2) == CacheRoom{20, 0, 20, 0});  // half of it for steps
  CHECK(room(40, 30, 0, 2) == CacheRoom{20, 25, 20, 5});
  CHECK(room(16, 20, 0, 2) == CacheRoom{16, 0, 0, 20});  // a step needs all of the memory
  CHECK(with_disk_of(room(40, 30, 0, 2), 12) == CacheRoom{20, 7, 20, 5});
  CHECK(with_disk_of(room(40, 30, 0, 2), 3) == CacheRoom{20, 0, 20, 3});
}

TEST_CASE("what a step looks at fits beside the node's part, however much memory there is",
          "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  VisitOrder order = training_order(data, 1);
  order.division.global_batch = 40;
  const size_t chunks = data.num_chunks(), needed = order.most_chunks_per_step();
  REQUIRE(needed == 40);
  for (size_t memory = needed; memory <= chunks; ++memory) {
    const CacheRoom room = divide_budget({memory * kChunk, 0}, data, order, 0, 2);
    CAPTURE(memory, room.memory_slots, room.part_memory_slots);
    CHECK(room.memory_slots >= std::min(needed, chunks - room.part_memory_slots));
  }
}

TEST_CASE("a cache goes on without a disk of the node that fails, and tells it once", "[cache]") {
  const Stored stored;
  const ChunkedDataset data = stored.open();
  CountingSource source(data);
  Node node(16);
  node.room = std::make_unique<ScratchRoom>(NodeDisk{stored.disk.path(), 0}, 50, kChunk);
  const std::string file = node.room->file().string();
  {
    ChunkCache cache(data, source, training_order(data, 3), node.options());
    cache.start(0, 0);
    LoaderOptions options = loader_options(stored.original);
    options.images = &cache.training();
    Loader loader(data.dataset(), options);
    std::vector<float> seen = take(loader, kSteps);
    fs::resize_file(file, 0);
    const std::vector<float> rest = take(loader, 2 * kSteps);
    seen.insert(seen.end(), rest.begin(), rest.end());
    CHECK(seen == without_cache(stored, 3));
  }
  REQUIRE(node.warnings.size() == 1);
  CHECK_THAT(node.warnings[0],
             Catch::Contains("the cache goes on without the node's disk: cannot read " + file));
}

TEST_CASE("room on the node's disk keeps to the budget, and is gone with its job", "[cache]") {
  const test::TempDir disk;
  const fs::path own = disk.path() / ("dlflow-" + std::to_string(::geteuid()));
  {
    const ScratchRoom first({disk.path(), 10 * kChunk}, 6, kChunk);
    CHECK(first.num_slots() == 6);
    CHECK(fs::file_size(first.file()) == 6 * kChunk);
    const ScratchRoom second({disk.path(), 10 * kChunk}, 6, kChunk);
    CHECK(second.num_slots() == 4);
    CHECK_THROWS_WITH(ScratchRoom({disk.path(), 10 * kChunk}, 6, kChunk),
                      Catch::Contains("do not fit into the scratch_budget"));
  }
  CHECK(std::distance(fs::directory_iterator(own), {}) == 1);  // the registry
  CHECK_THROWS_WITH(ScratchRoom({disk.path() / "nvme", 0}, 6, kChunk),
                    Catch::Contains("No such file or directory"));
}

TEST_CASE("what a killed job left on the node's disk is removed and never read", "[cache]") {
  const test::TempDir disk;
  const fs::path own = disk.path() / ("dlflow-" + std::to_string(::geteuid()));
  const pid_t child = ::fork();
  if (child == 0) {
    const ScratchRoom room({disk.path(), 0}, 6, kChunk);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  REQUIRE(std::distance(fs::directory_iterator(own), {}) == 3);  // its folder and its lock
  const ScratchRoom room({disk.path(), 6 * kChunk}, 6, kChunk);
  CHECK(room.num_slots() == 6);
  CHECK(std::distance(fs::directory_iterator(own), {}) == 3);  // ours
}
