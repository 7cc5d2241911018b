#include "engine/batch/submissions.h"

#include <chrono>
#include <latch>
#include <thread>

#include "tests/support/catch.h"
#include "tests/support/fake_batch_system.h"

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// Takes several submissions at once. Answers with the name of the batch and whether the test's own
/// thread submitted it.
class Threads : public FakeBatchSystem {
 public:
  Threads(const FakeClock& clock, size_t submissions)
      : FakeBatchSystem(clock), all_(ptrdiff_t(submissions)) {
    at_once = submissions;
  }

  SubmitCall render(const Batch& batch, const Profile&) const override {
    return {"", [this, name = batch.name] {
              all_.arrive_and_wait();
              return Accepted{name + (std::this_thread::get_id() == caller_ ? " by caller" : "")};
            }};
  }

 private:
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::latch all_;
};

/// Submissions to a system that takes several of them at once.
struct UnderWay {
  UnderWay(size_t at_once, std::chrono::seconds interval)
      : system(clock, at_once), submissions(system, interval) {}

  void begin(const std::string& name) {
    Batch batch;
    batch.name = name;
    submissions.begin(system.render(batch, profile));
  }
  std::string finish_first() { return std::get<Accepted>(submissions.finish_first()).id; }

  const FakeClock clock;
  const Threads system;
  const Profile profile;
  Submissions submissions;
};

}  // namespace

TEST_CASE("submissions run at once, and end in their order", "[submissions]") {
  UnderWay calls(2, std::chrono::seconds(0));
  calls.begin("1");
  CHECK_FALSE(calls.submissions.is_full());
  calls.begin("2");  // the first ends together with it, not before
  CHECK(calls.submissions.is_full());
  CHECK(calls.finish_first() == "1");
  CHECK(calls.finish_first() == "2");
  CHECK(calls.submissions.empty());
}

TEST_CASE("a batch system without a gain from threads is called by one thread", "[submissions]") {
  UnderWay calls(1, std::chrono::seconds(0));
  calls.begin("1");
  CHECK(calls.finish_first() == "1 by caller");
}

TEST_CASE("the pause between submissions is as long as the profile demands", "[submissions]") {
  UnderWay calls(2, std::chrono::seconds(1));
  const auto begin = std::chrono::steady_clock::now();
  calls.begin("1");
  calls.begin("2");
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::seconds(1));
  calls.finish_first();
  calls.finish_first();
}
