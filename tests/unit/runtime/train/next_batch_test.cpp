#include <string>

#include "runtime/comm/thread_communicator.h"
#include "runtime/train/evaluation.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Images in memory that record the rank's activity while they are requested.
class Watched final : public StepImages {
 public:
  explicit Watched(const Lifeline& lifeline) : lifeline_(lifeline) {}

  void check(const void*) override {
    const char* activity = lifeline_.activity();
    seen = activity == nullptr ? "nothing" : activity;
    counts = lifeline_.arrivals() == &arrivals_;
  }
  std::atomic<uint64_t>& arrivals() override { return arrivals_; }

  std::string seen;
  bool counts = false;

 private:
  const Lifeline& lifeline_;
  std::atomic<uint64_t> arrivals_ = 0;
};

}  // namespace

TEST_CASE("a rank that loads data is reported as waiting for it", "[train]") {
  const Dataset data = make_dataset<uint8_t>({1, 2, 2}, 2, std::vector<uint8_t>(16), {0, 1, 0, 1});
  ThreadGroup group(1);
  Communicator& comm = group.communicator(0);
  Lifeline lifeline;
  comm.set_lifeline(&lifeline);
  Watched images(lifeline);
  LoaderOptions options;
  options.division.global_batch = 2;
  options.normalization = normalization_of(data);
  options.images = &images;
  Loader loader(data, options);
  CHECK(next_batch(comm, loader, &images).global_samples == 2);
  CHECK(images.seen == "waits for data");
  CHECK(images.counts);
  CHECK(lifeline.activity() == nullptr);

  options.images = nullptr;
  Loader plain(data, options);
  CHECK(next_batch(comm, plain, nullptr).global_samples == 2);
}
