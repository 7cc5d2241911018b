#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_map>

#include "base/file.h"
#include "base/text.h"
#include "runtime/cache/chunk_plan.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/data/binary_writer.h"
#include "runtime/data/shard.h"
#include "runtime/train/trainer.h"

/// Training from a slow source, with a cache and without; and what a cache of half a set keeps.
/// Usage: data_cache FOLDER, which must be empty.
using namespace dlflow;
using namespace dlflow::runtime;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kSamples = 16384, kBatch = 128;
constexpr uint64_t kEpochs = 3;
constexpr ImageShape kShape = {3, 32, 32};
constexpr double kRate = 10e6;  // bytes per second, of all ranks together

constexpr const char* kModel = R"(name: bench
input: [3, 32, 32]
layers:
  - flatten
  - linear: {features: 128}
  - relu
  - linear: {features: 10}
)";

/// A file system that gives so many bytes per second to all who read from it.
class SlowSource final : public ChunkSource {
 public:
  struct Link {
    std::mutex mutex;
    Clock::time_point free = Clock::now();
    std::atomic<uint64_t> bytes{0};
  };

  SlowSource(const ChunkedDataset& data, Link& link) : files_(data.files()), link_(link) {}

  void read(const Chunk& chunk, std::span<std::byte> to) override {
    link_.bytes += to.size();
    Clock::time_point arrives;
    {
      const std::lock_guard lock(link_.mutex);
      const std::chrono::duration<double> time(double(to.size()) / kRate);
      link_.free =
          std::max(link_.free, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
      arrives = link_.free;
    }
    files_.read(chunk, to);
    std::this_thread::sleep_until(arrives);
  }
  void forget(const Chunk& chunk) override { files_.forget(chunk); }

 private:
  FileSource files_;
  Link& link_;
};

void make_data(const fs::path& folder, size_t chunk_bytes) {
  std::mt19937 random(1);
  std::vector<uint8_t> pixels(kSamples * kShape.num_values());
  for (uint8_t& pixel : pixels) pixel = uint8_t(random());
  std::vector<uint32_t> labels(kSamples);
  for (uint32_t& label : labels) label = uint32_t(random() % 10);
  write_binary_dataset(folder / "train.dlset",
                       make_dataset(kShape, 10, std::move(pixels), std::move(labels)), chunk_bytes);
}

/// What a training says of each of its epochs. `ranks_per_node` 0: all are on one.
std::vector<Json> train_epochs(const fs::path& folder, int ranks, const CacheBudget& budget,
                               SlowSource::Link* link, int ranks_per_node = 0) {
  const fs::path run = folder / "run";
  fs::remove_all(run);
  make_directories(run);
  TrainingJob job;
  job.settings.epochs = kEpochs;
  job.settings.batch = kBatch;
  job.settings.lr = 0.01;
  job.settings.validation = 0;
  job.settings.normalize = PixelStatistics{{0.5}, {0.29}};
  job.model = parse_model(kModel, "bench");
  job.checkpoints = run / "checkpoints";
  job.metrics = run / "metrics.jsonl";
  const auto chunks = std::make_shared<const ChunkedDataset>(folder, Split::Train);
  job.data = chunks->dataset();
  if (link != nullptr) {
    job.cache =
        CachedData{chunks, std::make_shared<SlowSource>(*chunks, *link), budget, {folder, 0}};
  }
  ThreadGroup group(ranks, std::chrono::minutes(5), ranks_per_node);
  const std::atomic<bool> stop = false;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] { train(group.communicator(rank), job, stop); });
    }
  }
  std::vector<Json> epochs;
  for (const std::string& text : split(read_file(job.metrics), '\n')) {
    if (!text.empty() && Json::parse(text).contains("epoch_s")) epochs.push_back(Json::parse(text));
  }
  return epochs;
}

double seconds(const Json& epoch) { return epoch.at("epoch_s").get<double>(); }

void print_epochs(int ranks, const char* name, const std::vector<Json>& epochs) {
  fmt::print("{:5}  {:34}", ranks, name);
  for (const Json& epoch : epochs) {
    fmt::print("  {:6.2f} ({:5.2f})", seconds(epoch), epoch.at("data_wait_s").get<double>());
  }
}

void print_training(const fs::path& folder, int ranks) {
  const uint64_t bytes = kSamples * kShape.num_values();
  const auto print = [&](const char* name, const std::vector<Json>& epochs) {
    print_epochs(ranks, name, epochs);
    fmt::print("\n");
    std::fflush(stdout);
  };
  const auto mapped = train_epochs(folder, ranks, {}, nullptr);
  print("mapped, in the page cache", mapped);
  SlowSource::Link link, tight_link;
  const auto cached = train_epochs(folder, ranks, {bytes, 0}, &link);
  print("slow, memory for all of it", cached);
  const uint64_t read = link.bytes;
  const auto on_disk = train_epochs(folder, ranks, {bytes * 3 / 4, bytes}, &tight_link);
  print("slow, memory for 3/4, rest on disk", on_disk);
  fmt::print(
      "       epoch 1: {:.2f} s, the source alone {:.2f} s ({} bytes read, once), ratio {:.2f}\n",
      seconds(cached[0]), double(bytes) / kRate, read,
      seconds(cached[0]) / (double(bytes) / kRate));
  fmt::print(
      "       epochs 2 and 3: {:.2f} of the speed of the mapped run; with the disk {:.2f}\n\n",
      (seconds(mapped[1]) + seconds(mapped[2])) / (seconds(cached[1]) + seconds(cached[2])),
      (seconds(mapped[1]) + seconds(mapped[2])) / (seconds(on_disk[1]) + seconds(on_disk[2])));
}

/// Two nodes of a rank each, with memory for 3/4 of the set.
void print_sharing(const fs::path& folder) {
  const uint64_t bytes = kSamples * kShape.num_values();
  for (const bool share : {false, true}) {
    SlowSource::Link link;
    const auto epochs = train_epochs(folder, 2, {bytes * 3 / 4, 0, share}, &link, 1);
    print_epochs(2, share ? "slow, 2 nodes, sharing" : "slow, 2 nodes, each for itself", epochs);
    fmt::print("  {:.2f} times the set read from the source\n", double(link.bytes) / double(bytes));
    std::fflush(stdout);
  }
}

/// Chunks of each step, of an epoch after the other.
std::vector<std::vector<uint32_t>> chunk_steps(size_t num_samples, size_t per_chunk,
                                               size_t epochs) {
  std::vector<std::vector<uint32_t>> steps;
  for (size_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = epoch_permutation(num_samples, 0, epoch);
    for (size_t i = 0; i < num_samples; i += kBatch) {
      std::vector<uint32_t> chunks;
      for (size_t k = i; k < std::min(i + kBatch, num_samples); ++k) {
        chunks.push_back(uint32_t(order[k] / per_chunk));
      }
      std::sort(chunks.begin(), chunks.end());
      chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
      steps.push_back(std::move(chunks));
    }
  }
  return steps;
}

using Steps = std::vector<std::vector<uint32_t>>;

/// Loads in steps from `first` on.
size_t planned_loads(const Steps& steps, const ChunkCapacity& capacity, size_t chunks,
                     size_t first) {
  ChunkPlan plan(chunks, capacity);
  plan.append(steps);
  size_t loads = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const size_t more = plan.next().loads.size();
    if (i >= first) loads += more;
  }
  return loads;
}

size_t lru_loads(const Steps& steps, size_t slots, size_t first) {
  std::list<uint32_t> order;
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> places;
  size_t loads = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const uint32_t chunk : steps[i]) {
      const auto found = places.find(chunk);
      if (found != places.end()) {
        order.erase(found->second);
      } else if (i >= first) {
        ++loads;
      }
      order.push_front(chunk);
      places[chunk] = order.begin();
    }
    for (; order.size() > slots; order.pop_back()) places.erase(order.back());
  }
  return loads;
}

/// Of what is looked at after the first epoch, how much is there.
void print_hits(size_t per_chunk) {
  const size_t chunks = (kSamples + per_chunk - 1) / per_chunk, slots = chunks / 2;
  const Steps steps = chunk_steps(kSamples, per_chunk, 5);
  const size_t first = (kSamples + kBatch - 1) / kBatch;
  size_t uses = 0, most = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    uses += i >= first ? steps[i].size() : 0;
    most = std::max(most, steps[i].size());
  }
  const auto hits = [&](size_t loads) { return 100 * (1 - double(loads) / double(uses)); };
  fmt::print("{:14} {:13.1f} % {:22.1f} % {:11.1f} %\n", per_chunk,
             hits(planned_loads(steps, {slots, 0, 0}, chunks, first)),
             most <= slots
                 ? hits(planned_loads(steps, {slots, 0, lookahead_for(slots, most)}, chunks, first))
                 : 0,
             hits(lru_loads(steps, slots, first)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: data_cache FOLDER\n");
    return 2;
  }
  const fs::path folder = argv[1];
  fmt::print("{} samples of 3 KiB, batches of {}, a source of {:.0f} MB/s for all ranks\n",
             kSamples, kBatch, kRate / 1e6);
  for (const size_t pictures : {1, 5}) {
    make_data(folder, pictures * kShape.num_values());
    fmt::print("{} picture(s) a chunk\n", pictures);
    fmt::print("ranks  seconds of epochs 1 to 3 (waited for data)\n");
    for (const int ranks : {1, 2}) print_training(folder, ranks);
    print_sharing(folder);
    fmt::print("\n");
  }
  fmt::print(
      "memory for half of the set: what is found there after the first epoch\n"
      "samples/chunk  next use (MIN)  MIN, loading ahead  last use (LRU)\n");
  for (const size_t per_chunk : {1, 4, 16}) print_hits(per_chunk);
}
