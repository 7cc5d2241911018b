#include "runtime/data/binary_writer.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Training on data in a file, through a cache and without.
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Counts what all ranks read of it.
class CountingSource final : public ChunkSource {
 public:
  explicit CountingSource(std::vector<std::filesystem::path> files) : files_(std::move(files)) {}

  void read(const Chunk& chunk, std::span<std::byte> to) override {
    bytes_ += to.size();
    files_.read(chunk, to);
  }
  void forget(const Chunk& chunk) override { files_.forget(chunk); }

  uint64_t bytes() const { return bytes_; }

 private:
  FileSource files_;
  std::atomic<uint64_t> bytes_ = 0;
};

/// As `tiny_job`, with data from a file in `folder`, through a cache if there is a budget for one.
TrainingJob stored_job(const std::filesystem::path& folder, const CacheBudget& budget) {
  constexpr size_t kChunkBytes = 4 * 64;  // 64 chunks of 4 images
  TrainingJob job = test::tiny_job(folder, 3);
  job.settings.augmentation = {
      .crop_padding = 2, .flip = true, .rotate = 20, .contrast = 0.3, .cutout = 3};
  job.settings.normalize = PixelStatistics{{0.25}, {0.2}};
  write_binary_dataset(folder / "train.dlset", job.data, kChunkBytes);
  if (budget.memory_bytes == 0) return job;
  auto chunks = std::make_shared<const ChunkedDataset>(folder, Split::Train);
  auto source = std::make_shared<CountingSource>(chunks->files());
  job.data = chunks->dataset();
  job.cache = CachedData{chunks, source, budget, {folder, 0}};
  return job;
}

struct Outcome {
  std::string bits;
  Json summary;
  uint64_t read_bytes = 0;  ///< from the source, by all nodes
};

Outcome train_stored(int ranks, int ranks_per_node, const CacheBudget& budget, size_t prefetch,
                     const CooperationOptions& cooperation = {}) {
  const test::TempDir dir;
  TrainingJob job = stored_job(dir.path(), budget);
  job.prefetch = prefetch;
  job.settings.cooperation = cooperation;
  if (cooperation != CooperationOptions{}) job.settings.precision = {.exact = false, .leaves = 0};
  ThreadGroup group(ranks, std::chrono::seconds(60), ranks_per_node);
  const auto ends = test::on_ranks(
      group, ranks, [&](Communicator& comm) { return train(comm, job, test::kGoOn).summary; });
  uint64_t read = 0;
  if (job.cache) read = static_cast<const CountingSource&>(*job.cache->source).bytes();
  return {test::newest_bits(dir.path()) + ends[0].at("accuracy").dump() + ends[0].at("loss").dump(),
          ends[0], read};
}

}  // namespace

TEST_CASE("neither ranks nor threads that load change a bit of augmented training",
          "[trainer][exact]") {
  const std::string alone = train_stored(1, 0, {}, 0).bits;
  const int ranks = GENERATE(1, 2, 3);
  const size_t prefetch = GENERATE(1, 2, 4);
  CHECK(train_stored(ranks, 0, {}, prefetch).bits == alone);
}

TEST_CASE("a cache changes no bit of training, however small, on however many nodes",
          "[trainer][exact][cache]") {
  const std::string without = train_stored(1, 0, {}, 0).bits;
  struct Case {
    int ranks, ranks_per_node;
    uint64_t chunks, on_disk;
    size_t prefetch;
  };
  const Case c = GENERATE(Case{1, 0, 64, 0, 0}, Case{1, 0, 50, 64, 2}, Case{2, 0, 50, 0, 0},
                          Case{2, 1, 64, 0, 2}, Case{3, 0, 50, 64, 0}, Case{3, 2, 50, 20, 2});
  const Outcome cached =
      train_stored(c.ranks, c.ranks_per_node, {c.chunks * 256, c.on_disk * 256}, c.prefetch);
  CHECK(cached.bits == without);
  if (c.chunks == 64 || c.on_disk == 64) {
    CHECK(cached.summary.at("data_source_bytes") <= 255 * 64);  // nothing is read twice
  }
}

TEST_CASE("a cache changes no bit where ranks make steps of their own, and servers none",
          "[trainer][cooperation][cache]") {
  using Kind = CooperationOptions::Kind;
  const auto cooperation =
      GENERATE(CooperationOptions{.kind = Kind::LocalSgd, .every = 3},
               CooperationOptions{.kind = Kind::Gossip},
               CooperationOptions{.kind = Kind::ParameterServer, .servers = 2, .staleness = 0});
  const int ranks_per_node = GENERATE(0, 2, 1);  // who adds what to averages depends on it
  const std::string without = train_stored(4, ranks_per_node, {}, 0, cooperation).bits;
  const uint64_t chunks = GENERATE(50, 64);
  const bool share = GENERATE(false, true);
  const CacheBudget budget{chunks * 256, 20 * 256, share};
  const Outcome cached = train_stored(4, ranks_per_node, budget, 2, cooperation);
  CHECK(cached.bits == without);
}

TEST_CASE("through a cache, too, workers need not wait for each other",
          "[trainer][cooperation][cache]") {
  const CooperationOptions free{.kind = CooperationOptions::Kind::ParameterServer,
                                .staleness = std::nullopt};
  CHECK(train_stored(4, 0, {50 * 256, 0}, 0, free).summary.at("steps") == 3 * 7);
}

TEST_CASE("nodes that share read the data once for all of them, and change no bit",
          "[trainer][exact][cache]") {
  const std::string without = train_stored(1, 0, {}, 0).bits;
  struct Case {
    int ranks, ranks_per_node;
    uint64_t chunks, on_disk;
    size_t prefetch;
  };
  const Case c = GENERATE(Case{2, 1, 64, 0, 2}, Case{2, 1, 50, 64, 0}, Case{3, 2, 50, 64, 2},
                          Case{4, 1, 50, 20, 2}, Case{4, 2, 64, 0, 0});
  const CacheBudget budget{c.chunks * 256, c.on_disk * 256, true};
  const Outcome shared = train_stored(c.ranks, c.ranks_per_node, budget, c.prefetch);
  CHECK(shared.bits == without);
  CHECK(shared.read_bytes == 255 * 64);
  CHECK(shared.summary.at("data_peer_bytes") > 0);
}

TEST_CASE("nodes that share and hold less than all read less than without", "[trainer][cache]") {
  const Outcome alone = train_stored(2, 1, {56 * 256, 0, false}, 0);
  const Outcome shared = train_stored(2, 1, {56 * 256, 0, true}, 0);
  CHECK(shared.bits == alone.bits);
  CHECK(shared.read_bytes < alone.read_bytes);
}

TEST_CASE("a cached run that stops and goes on ends with the bits of one that did not",
          "[trainer][cache]") {
  const test::TempDir whole, parts;
  test::train_on(2, stored_job(whole.path(), {}));
  const std::atomic<bool> stop = true;  // each run does one step and saves
  for (int i = 0; i < 9; ++i) {
    CHECK_FALSE(
        test::train_on(1, stored_job(parts.path(), {50 * 256, 20 * 256}), stop)[0].finished);
  }
  CHECK(test::train_on(1, stored_job(parts.path(), {50 * 256, 20 * 256}))[0].finished);
  CHECK(test::newest_bits(parts.path()) == test::newest_bits(whole.path()));
}

TEST_CASE("part of the data that is damaged ends training on every rank", "[trainer][cache]") {
  const test::TempDir dir;
  TrainingJob job = stored_job(dir.path(), {64 * 256, 0});
  test::damage(dir.path() / "train.dlset", 128 + 4 * 255 + 64 * 100);
  CHECK_THROWS_WITH(
      test::train_on(1, job),
      Catch::StartsWith((dir.path() / "train.dlset").string()) && Catch::Contains("are damaged"));
}
