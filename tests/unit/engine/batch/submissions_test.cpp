#include "engine/batch/submissions.h"

#include <chrono>
#include <latch>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_batch_system.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// Takes so many submissions, all at once, and answers with the name of the batch and whether the
/// thread of the test came with it.
class Threads : public FakeBatchSystem {
 public:
  Threads(const FakeClock& clock, size_t submissions)
      : FakeBatchSystem(clock), all_(ptrdiff_t(submissions)) {
    at_once = submissions;
  }

  SubmitAnswer submit(const Batch& batch, const Profile&) const override {
    all_.arrive_and_wait();
    return Accepted{batch.name + (std::this_thread::get_id() == caller_ ? " by caller" : "")};
  }

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::latch all_;
};

Batch named(const std::string& name) {
  Batch batch;
  batch.name = name;
  return batch;
}

std::string id_of(const SubmitAnswer& answer) { return std::get<Accepted>(answer).id; }

}  // namespace

TEST_CASE("submissions are under way at once, and end in their order", "[submissions]") {
  const FakeClock clock;
  const Threads system(clock, 2);
  const Profile profile;
  Submissions submissions(system, std::chrono::seconds(0));
  submissions.begin(named("1"), profile);
  CHECK_FALSE(submissions.is_full());
  submissions.begin(named("2"), profile);  // the first ends with it, and not before
  CHECK(submissions.is_full());
  CHECK(id_of(submissions.finish_first()) == "1");
  CHECK(id_of(submissions.finish_first()) == "2");
  CHECK(submissions.empty());
}

TEST_CASE("a batch system that gains nothing by it is called by one thread", "[submissions]") {
  const FakeClock clock;
  const Threads system(clock, 1);
  const Profile profile;
  Submissions submissions(system, std::chrono::seconds(0));
  submissions.begin(named("1"), profile);
  CHECK(id_of(submissions.finish_first()) == "1 by caller");
}

TEST_CASE("from one submission to the next is as long as the profile says", "[submissions]") {
  const FakeClock clock;
  const Threads system(clock, 2);
  const Profile profile;
  Submissions submissions(system, std::chrono::seconds(1));
  const auto begin = std::chrono::steady_clock::now();
  submissions.begin(named("1"), profile);
  submissions.begin(named("2"), profile);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1));
  submissions.finish_first();
  submissions.finish_first();
}
