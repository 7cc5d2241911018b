#include "runtime/train/recording.h"

#include <cmath>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

constexpr double kMinute = 60e6;  // microseconds

/// How often each rank's events name a span in the recording of `steps` steps.
std::map<std::pair<int, std::string>, int> recorded(int ranks, uint64_t steps, uint64_t made,
                                                    bool meets = true) {
  const test::TempDir dir;
  const std::filesystem::path file = dir.path() / "timeline.json";
  test::on_ranks(ranks, [&](Communicator& comm) {
    Recording recording(comm, steps, file);
    for (uint64_t step = 0; step < made; ++step) {
      recording.begin_step();
      {
        const Timed timed(recording.timeline(), Timeline::Row::Step,
                          "step of " + std::to_string(comm.rank()));
      }
      recording.end_step();
      if (meets) recording.meet(step + 1);
    }
    recording.finish();
    return 0;
  });
  std::map<std::pair<int, std::string>, int> counts;
  if (!std::filesystem::exists(file)) return counts;
  const Json events = Json::parse(read_file(file)).at("traceEvents");
  for (const Json& event : events) {
    if (event.at("ph") != "X") continue;
    ++counts[{event.at("pid"), event.at("name")}];
    CHECK(std::abs(event.at("ts").get<double>()) < kMinute);  // on rank 0's clock, from its start
  }
  return counts;
}

}  // namespace

TEST_CASE("the steps after the first ten are recorded, separately for each rank", "[recording]") {
  using Counts = std::map<std::pair<int, std::string>, int>;
  CHECK(recorded(1, 2, 14) == Counts{{{0, "step of 0"}, 2}});
  CHECK(recorded(3, 4, 14) ==
        Counts{{{0, "step of 0"}, 4}, {{1, "step of 1"}, 4}, {{2, "step of 2"}, 4}});
  CHECK(recorded(2, 9, 11) == Counts{{{0, "step of 0"}, 1}, {{1, "step of 1"}, 1}});
  CHECK(recorded(2, 0, 14).empty());
  CHECK(recorded(1, 2, 14, false) == Counts{{{0, "step of 0"}, 2}});
}
