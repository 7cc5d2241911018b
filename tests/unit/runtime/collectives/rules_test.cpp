#include "runtime/collectives/rules.h"

#include <cstdint>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/answers.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

std::string mistake_in(const std::string& text) {
  return test::error_of([&] { parse_rules(text, "collectives.txt:3"); });
}

}  // namespace

TEST_CASE("every algorithm has a name and a row in runtime.md", "[collectives]") {
  const std::string page = read_file(DLFLOW_DOCS "/contributor/runtime.md");
  for (const Algorithm algorithm : kAlgorithms) {
    const std::string word(name(algorithm));
    INFO(int(algorithm) << " " << word);
    CHECK_FALSE(word.empty());
    CHECK_THAT(page, Catch::Contains("| `" + word + "` |"));
  }
}

TEST_CASE("rules choose an algorithm by the number of bytes", "[collectives]") {
  const RuleSet rules =
      parse_rules("allreduce=recursive_doubling:0-8K;shm:8K-max", "collectives.txt:3");
  CHECK(rules.allreduce ==
        Rules{{Algorithm::RecursiveDoubling, 0, 8192}, {Algorithm::SharedMemory, 8192, SIZE_MAX}});
  CHECK(rules.between_nodes.empty());
  CHECK(choose(rules.allreduce, 0) == Algorithm::RecursiveDoubling);
  CHECK(choose(rules.allreduce, 8192) == Algorithm::RecursiveDoubling);
  CHECK(choose(rules.allreduce, 8193) == Algorithm::SharedMemory);
}

TEST_CASE("printed rules can be read again", "[collectives]") {
  const std::string text = GENERATE(
      "allreduce=shm:0-max", "allreduce=tree:0-100;ring:101-1M;mpi:1M-max",
      "allreduce=hierarchical:0-max between_nodes=rabenseifner:0-3G;direct:3221225473-max");
  CHECK(to_text(parse_rules(text, "here")) == text);
}

TEST_CASE("rules may overlap or cover one size, and the first match counts", "[collectives]") {
  const Rules rules =
      parse_rules(" allreduce=tree:0-100;ring:50-200;direct:0-0;mpi:201-max ", "here").allreduce;
  CHECK(rules.size() == 4);
  CHECK(choose(rules, 100) == Algorithm::Tree);
  CHECK(choose(rules, 200) == Algorithm::Ring);
  CHECK(choose(rules, 201) == Algorithm::Mpi);
  CHECK(parse_rules("allreduce=ring:0-18446744073709551615", "here").allreduce ==
        Rules{{Algorithm::Ring, 0, SIZE_MAX}});
  CHECK(parse_rules("allreduce=ring:0-17179869183G;tree:0-max", "here").allreduce[0].last_bytes ==
        SIZE_MAX - 0x3fffffff);
}

TEST_CASE("a mistake in rules is named with its correction", "[collectives]") {
  CHECK(mistake_in("allreduce=rign:0-max") ==
        "collectives.txt:3: 'rign' is not an algorithm; there are shm, hierarchical, "
        "recursive_doubling, rabenseifner, ring, tree, direct, mpi; did you mean 'ring'?");
  CHECK(mistake_in("allreduce=ring:1K-max") ==
        "collectives.txt:3: no rule for 0 bytes; sizes must go from 0 to max without a gap: "
        "recursive_doubling:0-8K;ring:8K-max");
  CHECK_THAT(mistake_in("allreduce=ring:0-8K"), Catch::Contains("no rule for 8193 bytes"));
  CHECK_THAT(mistake_in("allreduce=ring"), Catch::Contains("'ring' is not a rule"));
  CHECK_THAT(mistake_in("allreduce=ring:0-8T"), Catch::Contains("'8T' is not a size; write 4096"));
  CHECK_THAT(mistake_in("allreduce=ring:0-17179869185G"),  // 2^64 + 2^30
             Catch::Contains("'17179869185G' is not a size"));
  test::check_mentions(
      mistake_in,
      {{"allreduce=ring:0-K", "'K' is not a size"},
       {"allreduce=ring:-5", "'' is not a size"},
       {"allreduce=ring:0-18446744073709551616", "'18446744073709551616' is not a size"},
       {"allreduce", "'allreduce' is neither"},
       {"between_nodes", "'between_nodes' is neither"},
       {"allreduce=ring:8K-4K", "ends before it begins"},
       {"broadcast=tree:0-max", "'broadcast=tree:0-max' is neither allreduce=RULES nor"}});
}
