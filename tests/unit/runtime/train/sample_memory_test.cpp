#include <malloc.h>

#include "runtime/data/binary_writer.h"
#include "runtime/train/shared_split.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Measures the memory for a sample besides its image and label, which stay in their file.
using namespace dlflow;
using namespace dlflow::runtime;
namespace fs = std::filesystem;

namespace {

constexpr int kRanks = 4;

/// Measures the bytes in use while samples are read.
class MeasuredImages final : public StepImages {
 public:
  MeasuredImages(std::shared_ptr<StepImages> images, std::atomic<uint64_t>& most)
      : images_(std::move(images)), most_(most) {}

  void check(const void* image) override {
    const struct mallinfo2 info = ::mallinfo2();
    const uint64_t used = info.uordblks + info.hblkhd;
    for (uint64_t seen = most_; seen < used && !most_.compare_exchange_weak(seen, used);) continue;
    images_->check(image);
  }
  std::atomic<uint64_t>& arrivals() override { return images_->arrivals(); }

 private:
  std::shared_ptr<StepImages> images_;
  std::atomic<uint64_t>& most_;
};

/// The bytes of all ranks of a node in the second of two steps, with `samples` images of 2x2 bytes.
uint64_t bytes_used(size_t samples, size_t chunk_bytes) {
  const test::TempDir dir;
  write_binary_dataset(dir.path() / "train.dlset",
                       make_dataset<uint8_t>({1, 2, 2}, 3, std::vector<uint8_t>(samples * 4),
                                             std::vector<uint32_t>(samples, 2)),
                       chunk_bytes);
  TrainingJob job = test::tiny_job(dir.path(), 1);
  job.model =
      parse_model("name: t\ninput: [4]\nlayers: [linear: {name: a, features: 3}]", "t.yaml");
  job.settings.normalize = PixelStatistics{{0.25}, {0.2}};
  job.settings.augmentation = {};
  job.data = {};
  job.settings.validation = 100;
  std::atomic<uint64_t> most = 0;
  const std::atomic<bool> after_one_step = true;
  test::on_ranks(kRanks, [&](Communicator& comm) {
    SharedSplit split = open_shared_split(comm, dir.path(), Split::Train);
    TrainingJob mine = job;
    mine.data = std::move(split.dataset);
    mine.data_identity = std::move(split.identity);
    mine.images = std::make_shared<MeasuredImages>(std::move(split.images), most);
    comm.barrier();
    return train(comm, std::move(mine), after_one_step);
  });
  return most;
}

}  // namespace

TEST_CASE("a sample takes four bytes of memory per node for the order, and none per rank",
          "[trainer]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  test::skip("a sanitizer has a heap of its own");
#else
  // Many images share a hash, or each has its own; then there are fewer images, since hashing takes
  // longer.
  const bool together = GENERATE(true, false);
  const size_t chunk_bytes = together ? kChunkBytes : 4;
  const size_t few = together ? 100'000 : 10'000, many = 21 * few;
  const double more = double(bytes_used(many, chunk_bytes)) - double(bytes_used(few, chunk_bytes));
  const double per_sample = more / double(many - few);
  CAPTURE(together);
  CHECK(per_sample < 4.5);
#endif
}
