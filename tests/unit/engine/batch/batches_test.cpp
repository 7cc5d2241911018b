#include "engine/batch/batches.h"

#include "engine/batch/batch_job.h"
#include "engine/slurm/script.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using Kind = Standing::Kind;
using Numbers = std::vector<uint32_t>;

namespace {

Plan plan_of(const std::string& text) {
  return test::fresh_plan(test::parsed("name: w\nsteps:\n" + text));
}

std::string waits_for(const std::vector<PlannedDependency>& planned,
                      const std::vector<std::string>& ids = {}) {
  return dependency_text(dependencies(planned, ids));
}

/// Returns SLURM's rules for arrays.
ArrayRules rules(uint32_t max_size) { return {.max_size = max_size, .max_text = kMaxArrayText}; }

std::vector<Standing> all_new(const Plan& plan) {
  return std::vector<Standing>(plan.jobs.size(), {Kind::ToSubmit, ""});
}

/// Returns "train 0-2" for an array, "best" for a plain job, each with its dependencies after "<-".
/// SLURM's ids are 811, 812, ...
std::vector<std::string> shown(const Plan& plan, const std::vector<PlannedBatch>& batches) {
  std::vector<std::string> lines;
  std::vector<std::string> ids;
  for (const PlannedBatch& batch : batches) {
    std::string line = plan.workflow.steps[batch.step].name;
    for (const uint32_t task : batch.tasks) line += " " + std::to_string(task);
    const std::string waits = dependency_text(dependencies(batch.waits_for, ids));
    lines.push_back(waits.empty() ? line : line + " <- " + waits);
    ids.push_back(std::to_string(811 + ids.size()));
  }
  return lines;
}

using Lines = std::vector<std::string>;

Lines batches_of(const Plan& plan, const std::vector<Standing>& standing, uint32_t size = 1001) {
  return shown(plan, plan_batches(plan, standing, rules(size)));
}

constexpr const char* kSweep = R"(
  train: {run: "true", matrix: {n: [0, 1, 2, 3, 4]}}
  eval: {run: "true", matrix: {n: [0, 1, 2, 3, 4]}, needs: [train]}
  best: {run: "true", needs: [eval]}
)";

}  // namespace

TEST_CASE("each job of a plain chain is one sbatch that waits for its parents", "[slurm]") {
  const Plan plan = plan_of(R"(
  a: {run: "true"}
  b: {run: "true", needs: [a]}
  c: {run: "true", needs: [a]}
  d: {run: "true", needs: [b, c]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"a", "b <- afterok:811", "c <- afterok:811", "d <- afterok:812:813"});
}

TEST_CASE("a matrix step is one array, and its elements wait for their own parents", "[slurm]") {
  const Plan plan = plan_of(kSweep);
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"train 0 1 2 3 4", "eval 0 1 2 3 4 <- aftercorr:811", "best <- afterok:812"});
}

TEST_CASE("an array larger than the cluster allows is split", "[slurm]") {
  const Plan plan = plan_of(kSweep);
  CHECK(batches_of(plan, all_new(plan), 2) ==
        Lines{"train 0 1", "train 0 1", "train 0", "eval 0 1 <- aftercorr:811",
              "eval 0 1 <- aftercorr:812", "eval 0 <- afterok:813", "best <- afterok:814:815:816"});
  const auto batches = plan_batches(plan, all_new(plan), rules(2));
  CHECK(batches[1].jobs == Numbers{2, 3});
  CHECK(batches[2].is_array);
}

TEST_CASE("a task with another number than its parent waits only for that parent", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2]}}
  eval: {run: "true", matrix: {n: [2, 1, 0]}, needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) == Lines{"train 0 1 2", "eval 0 <- afterok:811_2",
                                                 "eval 1 <- aftercorr:811",
                                                 "eval 2 <- afterok:811_0"});
}

TEST_CASE("a step with other axes waits for all of its parent's array", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1]}}
  eval: {run: "true", matrix: {k: [0, 1, 2]}, needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) == Lines{"train 0 1", "eval 0 1 2 <- afterok:811"});
}

TEST_CASE("tasks with one parent in common are an array that waits for that task", "[slurm]") {
  const Plan plan = plan_of(R"(
  prep: {run: "true", matrix: {data: [x, y, z]}}
  train: {run: "true", matrix: {data: [x, y, z], lr: [1, 2]}, needs: [prep]}
)");
  CHECK(batches_of(plan, all_new(plan)) == Lines{"prep 0 1 2", "train 0 1 <- afterok:811_0",
                                                 "train 2 3 <- afterok:811_1",
                                                 "train 4 5 <- afterok:811_2"});
  std::vector<Standing> standing = all_new(plan);
  standing[0] = {Kind::Done, ""};
  standing[1] = {Kind::Waiting, "700_1"};
  CHECK(batches_of(plan, standing) ==
        Lines{"prep 2", "train 0 1", "train 2 3 <- afterok:700_1", "train 4 5 <- afterok:811"});
}

TEST_CASE("a task with several parents waits only for these", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {data: [x, y], lr: [1, 2]}}
  best: {run: "true", matrix: {data: [x, y]}, needs: [train]}
  per_lr: {run: "true", matrix: {lr: [1, 2]}, needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"train 0 1 2 3", "best 0 <- afterok:811_0:811_1", "best 1 <- afterok:811_2:811_3",
              "per_lr 0 <- afterok:811_0:811_2", "per_lr 1 <- afterok:811_1:811_3"});
  // An array with only these tasks is waited for as a whole.
  CHECK(batches_of(plan, all_new(plan), 2) ==
        Lines{"train 0 1", "train 0 1", "best 0 <- afterok:811", "best 1 <- afterok:812",
              "per_lr 0 <- afterok:811_0:812_0", "per_lr 1 <- afterok:811_1:812_1"});
}

TEST_CASE("a step that may fail is waited for until it ends, in whatever way", "[slurm]") {
  const Plan plan = plan_of(R"(
  prep: {run: "true", matrix: {n: [0, 1]}, allow_failure: true}
  train: {run: "true", matrix: {n: [0, 1]}, needs: [prep]}
  more: {run: "true", matrix: {n: [0, 1], k: [1, 2]}, needs: [prep]}
  best: {run: "true", needs: [prep]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"prep 0 1", "train 0 <- afterany:811_0", "train 1 <- afterany:811_1",
              "more 0 1 <- afterany:811_0", "more 2 3 <- afterany:811_1", "best <- afterany:811"});
}

TEST_CASE(
    "a step with always() waits until its parents end, and parents that can never start leave the "
    "queue",
    "[slurm]") {
  const Plan plan = plan_of(R"(
  data: {run: "true"}
  train: {run: "true", matrix: {n: [0, 1]}, needs: [data]}
  tidy: {run: "true", matrix: {n: [0, 1]}, needs: [train], if: "${{ always() }}"}
  after: {run: "true", needs: [tidy]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"data", "train 0 1 <- afterok:811", "tidy 0 <- afterany:812_0",
              "tidy 1 <- afterany:812_1", "after <- afterok:813:814"});
  std::vector<bool> leaves;
  for (const PlannedBatch& batch : plan_batches(plan, all_new(plan), rules(1001))) {
    leaves.push_back(batch.leaves_if_hopeless);
  }
  CHECK(leaves == std::vector<bool>{true, true, false, false, false});
}

TEST_CASE("elements with other resources have separate arrays", "[slurm]") {
  const Plan plan = plan_of(R"(
  train:
    run: "true"
    matrix: {ranks: [1, 4], seed: [1, 2]}
    resources: {ranks: "${{ matrix.ranks }}"}
  best: {run: "true", needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"train 0 1", "train 2 3", "best <- afterok:811:812"});
}

TEST_CASE("a finished job is not waited for, and a queued one is waited for by its id", "[slurm]") {
  const Plan plan = plan_of(kSweep);
  std::vector<Standing> standing = all_new(plan);
  for (uint32_t job = 0; job < 3; ++job) standing[job] = {Kind::Done, ""};
  standing[3] = {Kind::Waiting, "700_3"};
  CHECK(batches_of(plan, standing) == Lines{"train 4", "eval 0 1 2", "eval 3 <- afterok:700_3",
                                            "eval 4 <- afterok:811",
                                            "best <- afterok:812:813:814"});
}

TEST_CASE("a fan-in waits individually for tasks that were already in SLURM", "[slurm]") {
  const Plan plan = plan_of(kSweep);
  std::vector<Standing> standing(plan.jobs.size(), {Kind::Done, ""});
  standing[6] = {Kind::Waiting, "700_1"};
  standing[8] = {Kind::Waiting, "700_3"};
  standing[10].kind = Kind::ToSubmit;
  CHECK(batches_of(plan, standing) == Lines{"best <- afterok:700_1:700_3"});
}

TEST_CASE("omitted jobs are not submitted", "[slurm]") {
  const Plan plan = plan_of(kSweep);
  std::vector<Standing> standing = all_new(plan);
  for (const uint32_t job : {1, 6, 10}) standing[job].kind = Kind::LeftOut;
  CHECK(batches_of(plan, standing) == Lines{"train 0 2 3 4", "eval 0 2 3 4 <- aftercorr:811"});
}

TEST_CASE("a dependency is written in the words of sbatch", "[slurm]") {
  const std::vector<std::string> ids = {"811", "812"};
  CHECK(dependencies({}, ids).empty());
  CHECK(waits_for({{.batch = 1},
                   {.kind = PlannedDependency::Kind::SameTask, .batch = 0},
                   {.batch = 0, .task = 3},
                   {.id = "700_2"},
                   {.kind = PlannedDependency::Kind::End, .id = "699"},
                   {.kind = PlannedDependency::Kind::End, .batch = 1}},
                  ids) == "afterok:812:811_3:700_2,aftercorr:811,afterany:699:812");
}

TEST_CASE("an array whose list of tasks is longer than SLURM reads is split", "[slurm]") {
  const size_t count = 4000;
  std::string values = "0";
  for (size_t n = 1; n < count; ++n) values += ", " + std::to_string(n);
  const Plan plan = plan_of("  train: {run: \"true\", matrix: {n: [" + values + "]}}\n");
  std::vector<Standing> standing = all_new(plan);
  for (size_t job = 0; job < count; job += 2)
    standing[job].kind = Kind::Done;  // every second element is left
  const auto batches = plan_batches(plan, standing, rules(4001));
  CHECK(batches.size() == 3);
  size_t jobs = 0;
  for (const PlannedBatch& batch : batches) {
    jobs += batch.jobs.size();
    CHECK(format_array_range(batch.tasks).size() < kMaxArrayText);
  }
  CHECK(jobs == count / 2);
  CHECK(plan_batches(plan, all_new(plan), rules(4001)).size() == 1);
}

TEST_CASE("a dependency that is longer than SLURM reads is an error", "[slurm]") {
  std::vector<PlannedDependency> planned(9000, PlannedDependency{.id = "1234567_8901"});
  CHECK(waits_for(planned).size() < kMaxDependencyText);
  planned.resize(11000, planned.front());
  CHECK_THROWS_WITH(waits_for(planned), Catch::Contains("11,000 others one by one"));
}

namespace {

/// Returns the number of simultaneous tasks allowed for each array of `step`.
std::vector<int> places(const std::vector<PlannedBatch>& batches) {
  std::vector<int> list;
  for (const PlannedBatch& batch : batches) list.push_back(batch.max_parallel);
  return list;
}

/// Five elements with different resources, so that each is an array.
Plan five_arrays(int max_parallel) {
  return plan_of("  train: {run: \"true\", matrix: {n: [1, 2, 3, 4, 5], max_parallel: " +
                 std::to_string(max_parallel) + "}, resources: {ranks: \"${{ matrix.n }}\"}}\n");
}

}  // namespace

TEST_CASE("a limit on simultaneous jobs holds over all arrays of a step", "[slurm]") {
  SECTION("arrays share the places") {
    const Plan plan = five_arrays(7);
    CHECK(places(plan_batches(plan, all_new(plan), rules(1001))) == std::vector{2, 2, 1, 1, 1});
    CHECK(batches_of(plan, all_new(plan)) ==
          Lines{"train 0", "train 1", "train 2", "train 3", "train 4"});
  }
  SECTION("arrays follow each other if there are more arrays than places") {
    const Plan plan = five_arrays(2);
    CHECK(places(plan_batches(plan, all_new(plan), rules(1001))) == std::vector{1, 1, 1, 1, 1});
    CHECK(batches_of(plan, all_new(plan)) == Lines{"train 0", "train 1", "train 2 <- afterany:811",
                                                   "train 3 <- afterany:812",
                                                   "train 4 <- afterany:813"});
  }
  SECTION("tasks already in SLURM are counted") {
    const Plan plan = five_arrays(2);
    std::vector<Standing> standing = all_new(plan);
    standing[0] = {Kind::Waiting, "700_0"};
    standing[1] = {Kind::Waiting, "701_1"};
    standing[2] = {Kind::LeftOut, "701_2"};  // it may stay there forever
    CHECK(batches_of(plan, standing) ==
          Lines{"train 3 <- afterany:700:701_1", "train 4 <- afterany:700:701_1"});
  }
}

TEST_CASE("packed elements share a task, and a packed child waits task by task", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2, 3, 4], pack: 2}}
  eval: {run: "true", matrix: {n: [0, 1, 2, 3, 4], pack: 2}, needs: [train]}
  best: {run: "true", needs: [eval]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"train 0 0 1 1 2", "eval 0 0 1 1 2 <- aftercorr:811", "best <- afterok:812"});
  const auto batches = plan_batches(plan, all_new(plan), rules(1001));
  CHECK(distinct_tasks(batches[0]) == Numbers{0, 1, 2});
  CHECK(num_tasks(batches[0]) == 3);
  CHECK(num_tasks(batches[2]) == 1);
  CHECK(largest_task(batches[0]) == 2);
}

TEST_CASE("an unpacked step waits for the task that has its own element", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2], pack: 2}}
  eval: {run: "true", matrix: {n: [0, 1, 2]}, needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) ==
        Lines{"train 0 0 1", "eval 0 1 <- afterok:811_0", "eval 2 <- afterok:811_1"});
}

TEST_CASE("a shared task may run although some of its elements cannot", "[slurm]") {
  const Plan plan = plan_of(R"(
  data: {run: "true"}
  train: {run: "true", matrix: {n: [0, 1, 2]}}
  eval: {run: "true", matrix: {n: [0, 1, 2], pack: 2}, needs: [train, data]}
)");
  CHECK(batches_of(plan, all_new(plan)) == Lines{"data", "train 0 1 2",
                                                 "eval 0 0 <- afterok:811,afterany:812_0:812_1",
                                                 "eval 1 <- afterok:811:812_2"});
}

TEST_CASE("packs of different sizes wait for all tasks that have their elements", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2, 3, 4, 5], pack: 2}}
  eval: {run: "true", matrix: {n: [0, 1, 2, 3, 4, 5], pack: 3}, needs: [train]}
)");
  CHECK(batches_of(plan, all_new(plan)) == Lines{"train 0 0 1 1 2 2",
                                                 "eval 0 0 0 <- afterany:811_0:811_1",
                                                 "eval 1 1 1 <- afterany:811_1:811_2"});
}

TEST_CASE("elements with different resources share no task", "[slurm]") {
  Plan plan = plan_of(R"(
  train: {run: "true", matrix: {r: [1, 2], n: [0, 1], pack: 4}, resources: {ranks: "${{ matrix.r }}"}}
  eval: {run: "true", matrix: {n: [0, 1, 2], pack: 2}}
)");
  CHECK(share_a_task(plan, 0, 1));
  CHECK_FALSE(share_a_task(plan, 1, 2));
  CHECK_FALSE(share_a_task(plan, 3, 4));  // another step
  CHECK(share_a_task(plan, 4, 5));
  CHECK_FALSE(share_a_task(plan, 5, 6));  // another pack
  const auto batches = plan_batches(plan, all_new(plan), rules(1001));
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].jobs == Numbers{0, 1});
  CHECK(batches[0].tasks == Numbers{0, 0});
  CHECK(batches[1].jobs == Numbers{2, 3});
  plan.jobs[4].place = 1;  // another class of nodes
  CHECK_FALSE(share_a_task(plan, 4, 5));
}

TEST_CASE("only packed elements that are to be submitted are in a task", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2, 3, 4, 5], pack: 2, max_parallel: 1}}
)");
  std::vector<Standing> standing = all_new(plan);
  standing[0] = standing[2] = standing[3] = {Kind::Done, ""};
  CHECK(batches_of(plan, standing) == Lines{"train 0 2 2"});
  CHECK(plan_batches(plan, standing, rules(1001))[0].max_parallel == 1);
}

TEST_CASE("packed arrays are split by the number of their tasks", "[slurm]") {
  const Plan plan = plan_of(R"(
  train: {run: "true", matrix: {n: [0, 1, 2, 3, 4, 5, 6], pack: 2}}
)");
  CHECK(batches_of(plan, all_new(plan), 2) == Lines{"train 0 0 1 1", "train 0 0 1"});
}
