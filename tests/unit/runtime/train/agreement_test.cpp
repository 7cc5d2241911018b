#include "runtime/train/agreement.h"

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/train/network_set.h"
#include "runtime/train/preparation.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/on_ranks.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("every rank learns the values of all ranks", "[agreement]") {
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

TEST_CASE("ranks that differ are named on every rank", "[agreement]") {
  const auto messages = test::on_ranks(4, [](Communicator& comm) {
    return test::error_of([&] {
      require_agreement(comm, {{"the seed", "1"}, {"the model", comm.rank() % 2 ? "b" : "a"}});
    });
  });
  for (const std::string& message : messages) {
    CHECK(message ==
          "the model of ranks 1, 3 differs from that of rank 0; start all ranks with "
          "the same files and settings");
  }
}

TEST_CASE("a difference is shown with the values if they are readable", "[agreement]") {
  const auto messages = test::on_ranks(3, [](Communicator& comm) {
    const std::string own = comm.rank() == 2 ? "avx2" : "avx512_core";
    return test::error_of([&] {
      require_agreement(comm, {{"the arithmetic", own, own, "use nodes that are alike"}});
    });
  });
  for (const std::string& message : messages) {
    CHECK(message ==
          "the arithmetic of rank 2 differs from that of rank 0 (avx2; rank 0: avx512_core); use "
          "nodes that are alike");
  }
}

namespace {

/// The message on rank 1 of two if it computes with `arithmetic`, or stores its weights in another
/// order.
std::string told(const std::string& arithmetic, bool other_order, bool exact) {
  const Model model = parse_model(test::kTinyModel, "tiny.yaml");
  const NetworkSet networks(model, 8, Network::Mode::Training);
  const auto messages = test::on_ranks(2, [&](Communicator& comm) -> std::string {
    const bool other = comm.rank() == 1;
    const auto layout = other && other_order ? plain_layout(model) : networks.layout();
    try {
      require_same_arithmetic(comm, *layout, other ? arithmetic : "avx512_core", exact);
    } catch (const Error& e) {
      return e.what();
    }
    return "agreed";
  });
  CHECK(messages[0] == messages[1]);
  return messages[1];
}

}  // namespace

TEST_CASE("ranks that compute differently do not start", "[agreement]") {
  CHECK(told("avx512_core", false, true) == "agreed");
  CHECK(told("avx2", false, false) == "agreed");  // fast mode does not promise the bits
  CHECK_THAT(told("avx2", false, true),
             Catch::StartsWith("the arithmetic of rank 1 differs from that of rank 0 (avx2; rank "
                               "0: avx512_core); start all ranks on processors of one kind") &&
                 Catch::EndsWith("or with precision: {reduction: fast}"));
  const bool exact = GENERATE(true, false);
  CHECK_THAT(told("avx2", true, exact),
             Catch::StartsWith("the order of the weights in memory of rank 1 differs from that of "
                               "rank 0 (avx2; rank 0: avx512_core)"));
}
