#include "runtime/train/agreement.h"

#include "base/error.h"
#include "runtime/comm/broadcast_text.h"
#include "tests/support/catch.h"
#include "tests/support/on_ranks.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("every rank learns what each rank has", "[agreement]") {
  const int ranks = GENERATE(1, 2, 5);
  const auto all = test::on_ranks(
      ranks, [](Communicator& comm) { return gather(comm, double(comm.rank()) / 2); });
  std::vector<double> expected;
  for (int rank = 0; rank < ranks; ++rank) expected.push_back(double(rank) / 2);
  for (const auto& values : all) CHECK(values == expected);
}

TEST_CASE("rank 0's text reaches every rank, whatever its length", "[agreement]") {
  const std::string text = GENERATE("", "short", "a text that is not kept inside of a std::string");
  const auto all = test::on_ranks(3, [&](Communicator& comm) {
    return broadcast_text(comm, comm.rank() == 0 ? text : "mine");
  });
  CHECK(all == std::vector<std::string>(3, text));
}

TEST_CASE("ranks that differ are named, on every rank", "[agreement]") {
  const auto messages = test::on_ranks(4, [](Communicator& comm) -> std::string {
    try {
      require_agreement(comm, {{"the seed", "1"}, {"the model", comm.rank() % 2 ? "b" : "a"}});
    } catch (const Error& e) {
      return e.what();
    }
    return "agreed";
  });
  for (const std::string& message : messages) {
    CHECK(message ==
          "the model of ranks 1, 3 differs from that of rank 0; start all ranks with "
          "the same files and settings");
  }
}
