#include "runtime/train/report_slot.h"

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow::runtime;

namespace {

constexpr size_t kSlotLeaves = 4;

/// A rank whose leaves have gradients of one parameter, and the slot behind it.
class Rank {
 public:
  explicit Rank(Communicator& comm)
      : reducer_(comm, layout(), {.num_leaves = kSlotLeaves}),
        noise_({.own_leaves = reducer_.num_leaves()}),
        slot_(reducer_, noise_) {}

  /// Takes a step in which leaf i of all has the loss 1 + i. A rank without leaves cannot read sums
  /// from gradients.
  ReportSlot::Sums step(const ReportSlot::OfRank& of_rank) {
    reducer_.begin();
    slot_.begin_step(of_rank);
    for (size_t leaf = 0; leaf < reducer_.num_leaves(); ++leaf) {
      slot_.write(leaf, float(1 + reducer_.first_leaf() + leaf));
      std::ranges::fill(reducer_.gradient(leaf, 0), 1.0f);
      reducer_.ready(leaf, 0);
    }
    reducer_.end();
    if (reducer_.num_leaves() == 0) {
      reducer_.finish();
      return {};
    }
    const auto sums = slot_.read(reducer_.layout().slot(reducer_.gradients(0), 1));
    reducer_.finish();  // others may still wait for this rank
    return sums;
  }

 private:
  static FlatLayout layout() {
    const std::vector<size_t> sizes = {3, ReportSlot::kFloats};
    return FlatLayout(sizes);
  }

  Reducer reducer_;
  NoiseMeter noise_;
  ReportSlot slot_;
};

/// The sums in words.
std::string in_words(const ReportSlot::Sums& sums) {
  const auto number = [](float value) { return std::to_string(int(value)); };
  return "loss " + number(sums.report.loss) + ", stops " + number(sums.report.stops) + ", saves " +
         number(sums.report.saves) + ", waited " + number(sums.data_wait_s);
}

}  // namespace

TEST_CASE("losses are summed over leaves, and a rank's requests count once", "[report_slot]") {
  const int num_ranks = GENERATE(1, 2, 3, 4);
  const auto told = dlflow::test::on_ranks(num_ranks, [](Communicator& comm) {
    return in_words(Rank(comm).step({{.stops = 1, .saves = comm.rank() == 0 ? 1.0f : 0.0f}, 2}));
  });
  const std::string ranks = std::to_string(num_ranks), waited = std::to_string(2 * num_ranks);
  const std::string expected = "loss 10, stops " + ranks + ", saves 1, waited " + waited;
  CHECK(told == std::vector<std::string>(size_t(num_ranks), expected));
}

TEST_CASE("waits for other ranks are summed over ranks", "[report_slot]") {
  const auto waited = dlflow::test::on_ranks(3, [](Communicator& comm) {
    return Rank(comm)
        .step({.wishes = {}, .data_wait_s = 0, .communication_wait_s = 0.5f})
        .communication_wait_s;
  });
  CHECK(waited == std::vector<float>(3, 1.5f));
}

TEST_CASE("a rank without leaves adds nothing to a report", "[report_slot]") {
  auto told = dlflow::test::on_ranks(int(kSlotLeaves) + 1, [](Communicator& comm) {
    return in_words(Rank(comm).step({{.stops = comm.rank() == int(kSlotLeaves) ? 1.0f : 0.0f}, 1}));
  });
  told.pop_back();
  const std::string expected = "loss 10, stops 0, saves 0, waited 4";
  CHECK(told == std::vector<std::string>(kSlotLeaves, expected));
}

TEST_CASE("a rank's requests last for one step", "[report_slot]") {
  const auto told = dlflow::test::on_ranks(2, [](Communicator& comm) {
    Rank rank(comm);
    rank.step({{.stops = 1}, 1});
    return in_words(rank.step({}));
  });
  CHECK(told == std::vector<std::string>(2, "loss 10, stops 0, saves 0, waited 0"));
}
