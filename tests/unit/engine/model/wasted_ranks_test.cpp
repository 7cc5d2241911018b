#include "engine/model/wasted_ranks.h"

#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// Returns the wasted ranks of a training of `ranks` ranks with `with` besides the required keys.
std::set<std::string> wasted_by(const std::string& ranks, const std::string& with,
                                const std::string& matrix = "") {
  const test::TempDir folder;
  folder.write("m.yaml", "");
  const Workflow workflow =
      test::parsed("name: w\nparams: {r: 8}\nsteps:\n  t:\n    uses: train\n" + matrix +
                       "    resources: {ranks: " + ranks +
                       "}\n    with: {model: m.yaml, data: /d, epochs: 1, "
                       "lr: 1" +
                       with + "}\n",
                   folder.path());
  return wasted_ranks(workflow.steps[0], workflow.params);
}

}  // namespace

TEST_CASE("a training with more ranks than leaves wastes some", "[wasted_ranks]") {
  const std::set<std::string> four = {
      "4 of 8 ranks have nothing to do: a step has 4 leaves. All have work with 'precision: "
      "{leaves: 8}', or with 'batch: 256'"};
  CHECK(wasted_by("8", "") == four);
  CHECK(wasted_by("'${{ params.r }}'", "") == four);
  CHECK(wasted_by("'${{ matrix.n }}'", "", "    matrix: {n: [2, 4, 8]}\n") == four);
  CHECK(
      wasted_by("1024", ", batch: 4096") ==
      std::set<std::string>{"1016 of 1024 ranks have nothing to do: a step has 8 leaves. All have "
                            "work with 'precision: {leaves: 1024}'"});
  CHECK(wasted_by("1024", ", batch: 4096, precision: {leaves: 1024}").empty());
  CHECK(wasted_by("4", "").empty());
  CHECK(wasted_by("8", ", batch: 256").empty());
  CHECK(wasted_by("8", ", batch_per_rank: 32").empty());
  CHECK(wasted_by("8", ", batch_per_rank: 8").empty());
  CHECK(wasted_by("8", ", batch_per_rank: 8, precision: {leaves: 4}").size() == 1);
  CHECK(wasted_by("8", ", accumulate: 2").empty());
  CHECK(wasted_by("8", ", precision: {leaves: 8}").empty());
  CHECK(wasted_by("8", ", precision: {reduction: fast}").empty());
}
