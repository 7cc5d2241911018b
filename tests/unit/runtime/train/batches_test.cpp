#include "runtime/train/batches.h"

#include <vector>

#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace dlflow::test;

namespace {

/// 10 samples, labelled with their numbers, in steps of 4, 4 and 2.
constexpr size_t kSamples = 10;
const Division kDivision = {.num_samples = kSamples, .global_batch = 4, .num_leaves = 4};

TrainingData numbered_data() {
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < kSamples; ++i) labels.push_back(uint32_t(i));
  TrainingData data;
  data.train = make_dataset<uint8_t>({1, 2, 2}, kSamples, std::vector<uint8_t>(kSamples * 4),
                                     std::move(labels));
  return data;
}

using LabelList = std::vector<uint32_t>;

/// The labels of this rank's leaves in `count` steps from (epoch, step) on.
std::vector<LabelList> load(Communicator& comm, uint64_t epoch, uint64_t step, size_t count) {
  TrainingJob job;
  job.settings.seed = 5;
  const TrainingData data = numbered_data();
  const size_t leaves = kDivision.num_leaves / size_t(comm.size());
  Timeline timeline;
  Batches batches(comm, job, data, {{1}, {0}}, {kDivision, {size_t(comm.rank()) * leaves, leaves}},
                  timeline);
  batches.seek(epoch, step);
  std::vector<LabelList> loaded;
  for (size_t i = 0; i < count; ++i) {
    LabelList& labels = loaded.emplace_back();
    for (const Leaf& leaf : batches.load().leaves) {
      labels.insert(labels.end(), leaf.labels.begin(), leaf.labels.end());
    }
  }
  return loaded;
}

}  // namespace

TEST_CASE("the ranks' batches together are the epoch's order", "[batches]") {
  const int num_ranks = GENERATE(1, 2, 4);
  const auto of_ranks = on_ranks(num_ranks, [](Communicator& comm) { return load(comm, 1, 0, 3); });
  LabelList together;
  for (size_t step = 0; step < 3; ++step) {
    for (const auto& steps : of_ranks) {
      together.insert(together.end(), steps[step].begin(), steps[step].end());
    }
  }
  CHECK(together == epoch_permutation(kSamples, 5, 1));
}

TEST_CASE("a continued run loads from its next step", "[batches]") {
  ThreadGroup group(1);
  Communicator& comm = group.communicator(0);
  const std::vector<LabelList> whole = load(comm, 0, 0, 5);
  CHECK(load(comm, 0, 2, 3) == std::vector<LabelList>(whole.begin() + 2, whole.end()));
  CHECK(whole[2].size() == 2);
  CHECK(whole[3].size() == 4);  // a batch of the next epoch
}

TEST_CASE("the images of a batch are verified when they are read", "[batches]") {
  class Images final : public StepImages {
   public:
    void check(const void*) override { ++checked; }
    std::atomic<uint64_t>& arrivals() override { return arrivals_; }
    size_t checked = 0;

   private:
    std::atomic<uint64_t> arrivals_ = 0;
  };
  const auto images = std::make_shared<Images>();
  ThreadGroup group(1);
  TrainingJob job;
  const TrainingData data = numbered_data();
  Timeline timeline;
  const Batches::Setup setup = {kDivision, {0, kDivision.num_leaves}};
  job.images = images;
  Batches proven(group.communicator(0), job, data, {{1}, {0}}, setup, timeline);
  (void)proven.load();
  CHECK(images->checked == 4);
}
