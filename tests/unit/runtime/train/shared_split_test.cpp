#include "runtime/train/shared_split.h"

#include "runtime/data/binary_writer.h"
#include "runtime/data/sharded_dataset.h"
#include "tests/support/catch.h"
#include "tests/support/damage.h"
#include "tests/support/error_of.h"
#include "tests/support/hashed_bytes.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Tests how often data is read and hashed, and that no damage is missed.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::error_of;
namespace fs = std::filesystem;

namespace {

constexpr size_t kSamples = 8000, kPixels = kSamples * 64;  // half a megabyte
constexpr size_t kOverhead = kPixels / 16;  // labels, hashes of chunks; settings and the like
constexpr uint64_t kFirstPixel = 128 + 4 * kSamples;

TrainingJob large_job(const fs::path& folder) {
  TrainingJob job = test::tiny_job(folder, 1);
  job.settings.batch = 500;
  job.settings.validation = 1000;
  job.data = {};
  return job;
}

/// Each rank's end of a training, with `data` opened as in dlflow-train.
std::vector<TrainingEnd> train_on_files(int ranks, int ranks_per_node, const TrainingJob& job,
                                        const fs::path& data, const std::atomic<bool>& stop) {
  ThreadGroup group(ranks, std::chrono::seconds(60), ranks_per_node);
  return test::on_ranks(group, ranks, [&](Communicator& comm) {
    SharedSplit split = open_shared_split(comm, data, Split::Train);
    TrainingJob mine = job;
    mine.data = std::move(split.dataset);
    mine.data_identity = std::move(split.identity);
    mine.images = std::move(split.images);
    return train(comm, std::move(mine), stop);
  });
}

const std::atomic<bool> kAfterOneStep = true;

std::string big_endian(uint32_t number) {
  return {char(number >> 24), char(number >> 16), char(number >> 8), char(number)};
}

void write_idx(const test::TempDir& folder, const Dataset& dataset) {
  const auto count = uint32_t(dataset.size());
  std::string images =
      std::string("\0\0\x08\x03", 4) + big_endian(count) + big_endian(8) + big_endian(8);
  std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(count);
  const auto& pixels = std::get<PixelRows<uint8_t>>(dataset.pixels);
  for (size_t i = 0; i < count; ++i) {
    images.append(reinterpret_cast<const char*>(pixels[i].data()), 64);
    labels += char(dataset.labels[i]);
  }
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte", labels);
}

}  // namespace

TEST_CASE("ranks begin without hashing all of packed data", "[trainer][data]") {
  const test::TempDir dir;
  write_binary_dataset(dir.path() / "train.dlset", test::tiny_dataset(kSamples));
  TrainingJob job = large_job(dir.path());
  job.settings.normalize = PixelStatistics{{0.25}, {0.2}};
  const uint64_t hashed =
      test::hashed_by([&] { train_on_files(4, 0, job, dir.path(), kAfterOneStep); });
  // 500 images may come from all chunks of 256; each rank reads labels and hashes itself.
  CHECK(hashed < kPixels + 4 * (4 * kSamples + kOverhead));
}

TEST_CASE("packed data is hashed once per node in an epoch, including its statistics",
          "[trainer][data]") {
  const bool shards = GENERATE(false, true);
  const int nodes = GENERATE(1, 2);
  const test::TempDir dir;
  const Dataset data = test::tiny_dataset(kSamples);
  if (shards) {
    write_sharded_dataset(dir.path(), "train", source_of(data), 3);
  } else {
    write_binary_dataset(dir.path() / "train.dlset", data);
  }
  const TrainingJob job = large_job(dir.path());
  const uint64_t hashed =
      test::hashed_by([&] { train_on_files(4, 4 / nodes, job, dir.path(), test::kGoOn); });
  CHECK(hashed >= size_t(nodes) * kPixels);
  CHECK(hashed < size_t(nodes) * kPixels + 4 * (4 * kSamples + kOverhead));

  const test::TempDir alone;
  TrainingJob in_memory = large_job(alone.path());
  in_memory.data = data;
  test::train_on(1, in_memory);
  CHECK(test::newest_bits(dir.path()) == test::newest_bits(alone.path()));
}

TEST_CASE("data without hashes of chunks is hashed once per node", "[trainer][data]") {
  const int nodes = GENERATE(1, 2);
  const test::TempDir dir;
  write_idx(dir, test::tiny_dataset(kSamples));
  const uint64_t hashed = test::hashed_by(
      [&] { train_on_files(4, 4 / nodes, large_job(dir.path()), dir.path(), kAfterOneStep); });
  CHECK(hashed >= size_t(nodes) * kPixels);
  CHECK(hashed < size_t(nodes) * (kPixels + 4 * kSamples) + 4 * kOverhead);
}

TEST_CASE("ranks whose files differ do not start, packed or not", "[trainer][data]") {
  const bool packed = GENERATE(true, false);
  const test::TempDir dir, ours, theirs;
  Dataset data = test::tiny_dataset(kSamples);
  const auto write = [&](const test::TempDir& folder) {
    if (packed) {
      write_binary_dataset(folder.path() / "train.dlset", data);
    } else {
      write_idx(folder, data);
    }
  };
  write(ours);
  test::set_label(data, 17, (data.labels[17] + 1) % 3);
  write(theirs);
  const TrainingJob job = large_job(dir.path());
  const auto errors = test::on_ranks(3, [&](Communicator& comm) {
    return error_of([&] {
      const fs::path folder = comm.rank() == 2 ? theirs.path() : ours.path();
      SharedSplit split = open_shared_split(comm, folder, Split::Train);
      TrainingJob mine = job;
      mine.data = std::move(split.dataset);
      mine.data_identity = split.identity;
      mine.images = split.images;
      train(comm, std::move(mine), test::kGoOn);
    });
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, Catch::StartsWith("the training data of rank 2 differs from that of rank 0"));
  }
}

TEST_CASE("a damaged image is never trained on, whichever rank reads it first", "[trainer][data]") {
  const bool measured = GENERATE(true, false);  // all data is read before the first step
  const uint64_t sample = GENERATE(0, 4321, kSamples - 1);
  const test::TempDir dir;
  const fs::path file = dir.path() / "train.dlset";
  write_binary_dataset(file, test::tiny_dataset(kSamples));
  test::damage(file, kFirstPixel + 64 * sample);
  TrainingJob job = large_job(dir.path());
  if (!measured) job.settings.normalize = PixelStatistics{{0.25}, {0.2}};
  CHECK_THROWS_WITH(train_on_files(1, 0, job, dir.path(), test::kGoOn),
                    Catch::StartsWith(file.string() + ": bytes ") &&
                        Contains(" are damaged: their SHA-256 does not match; copy it again"));
  if (measured) CHECK(list_checkpoints(job.checkpoints).empty());
}

TEST_CASE("damaged labels or hashes are refused by the rank that opens them", "[data]") {
  const uint64_t offset = GENERATE(uint64_t(128 + 4 * 17), kFirstPixel + kPixels + 5);
  const test::TempDir dir;
  const fs::path file = dir.path() / "train.dlset";
  write_binary_dataset(file, test::tiny_dataset(kSamples));
  test::damage(file, offset);
  CHECK_THROWS_WITH(train_on_files(1, 0, large_job(dir.path()), dir.path(), test::kGoOn),
                    Contains("the SHA-256 of its labels and hashes does not match"));
}

TEST_CASE("a rank does not accept other files in place of its node's verified ones", "[data]") {
  const test::TempDir ours, theirs;
  for (const test::TempDir* dir : {&ours, &theirs}) {
    write_binary_dataset(dir->path() / "train.dlset", test::tiny_dataset(kSamples));
  }
  test::damage(theirs.path() / "train.dlset", kFirstPixel);
  const auto errors = test::on_ranks(3, [&](Communicator& comm) {
    const fs::path folder = comm.rank() == 1 ? theirs.path() : ours.path();
    SharedSplit split = open_shared_split(comm, folder, Split::Train);
    const void* const first = std::get<PixelRows<uint8_t>>(split.dataset.pixels)[0].data();
    if (comm.rank() != 1) split.images->check(first);
    comm.barrier();
    return error_of([&] { split.images->check(first); });
  });
  CHECK(errors[0] == "");
  CHECK_THAT(errors[1], Contains("are damaged"));
  CHECK(errors[2] == "");
}

TEST_CASE("the statistics of data have the same bits on any number of ranks", "[trainer][data]") {
  Dataset data = test::tiny_dataset(3000);
  if (GENERATE(false, true)) {
    std::vector<float> values;
    for (size_t i = 0; i < data.size(); ++i) {
      for (const uint8_t pixel : std::get<PixelRows<uint8_t>>(data.pixels)[i]) {
        values.push_back(float(pixel) / 255.0f);
      }
    }
    data = make_dataset({1, 8, 8}, 3, std::move(values), data.labels.copy());
  }
  const Normalization alone = normalization_of(data);
  CHECK(alone.scale[0] > 0);
  const int ranks = GENERATE(1, 2, 3, 5);
  for (const Normalization& there : test::on_ranks(
           ranks, [&](Communicator& comm) { return shared_normalization(comm, data, nullptr); })) {
    CHECK(there == alone);
  }
}
