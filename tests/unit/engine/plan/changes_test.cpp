#include "engine/plan/changes.h"

#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::test;
using namespace std::chrono_literals;

namespace {

Workflow workflow() {
  const TempDir folder;
  folder.write("m.yaml", "");
  return parsed(R"(
name: demo
params: {epochs: 3}
steps:
  train:
    uses: train
    with: {model: m.yaml, data: d, epochs: 1, lr: 0.1, precision: {reduction: fast}}
  eval: {run: ./eval, needs: [train]}
  exact: {uses: train, with: {model: m.yaml, data: d, epochs: 1, lr: 0.1}}
)",
                folder.path());
}

/// Returns a plan of `train`, `eval` and `exact`, one job each.
Plan plan() {
  Plan plan;
  plan.workflow = workflow();
  for (uint32_t step = 0; step < 3; ++step) {
    plan.jobs.push_back(
        {.step = step, .name = JobName(plan.workflow.steps[step].name), .place = {}});
  }
  return plan;
}

std::string refusal(const std::string& word) {
  return test::error_of(
      [&] { resource_settings({word}, workflow(), "dlflow run w.yaml --profile alpha"); });
}

}  // namespace

TEST_CASE("settings of a resubmit are keys of resources", "[changes]") {
  CHECK(resource_settings({"walltime=40m", "memory=2GiB", "ranks=4"}, workflow(), "") ==
        Json({{"walltime", "40m"}, {"memory", "2GiB"}, {"ranks", 4}}));
}

TEST_CASE("an invalid setting is answered with advice", "[changes]") {
  CHECK(refusal("waltime=40m").find("did you mean 'walltime'?") != std::string::npos);
  CHECK(refusal("colour=red").find("known: walltime, memory") != std::string::npos);
  CHECK(refusal("walltime=soon").find("soon") != std::string::npos);
  CHECK(refusal("ranks=0").find("ranks") != std::string::npos);
  CHECK(refusal("memory").find("KEY=VALUE") != std::string::npos);
  CHECK(refusal("=4").find("KEY=VALUE") != std::string::npos);
  const std::string parameter = refusal("epochs=30");
  CHECK(parameter.find("is a parameter") != std::string::npos);
  CHECK(parameter.find("`dlflow run w.yaml --profile alpha --set epochs=…`") != std::string::npos);
}

TEST_CASE("a change is shown in the words of the workflow", "[changes]") {
  const Resources before{.memory_bytes = 1 << 30, .walltime = 20min};
  Resources now = before;
  CHECK(words_of_change(before, now).empty());
  now.walltime = 40min;
  now.ranks = 4;
  CHECK(words_of_change(before, now) == "walltime 20:00 → 40:00, ranks 1 → 4");
  now = {.ranks = 1, .cpus_per_rank = 2, .gpus_per_rank = 3, .memory_bytes = 0, .walltime = 0min};
  CHECK(
      words_of_change(before, now) ==
      "walltime 20:00 → not said, memory 1.0 GiB → not said, cpus_per_rank 1 → 2, gpus_per_rank 0 "
      "→ 3");
}

TEST_CASE("an invalid line of changes is skipped", "[changes]") {
  const TempDir folder;
  Plan changed = plan();
  changed.directory = folder.path();
  const std::vector<uint32_t> jobs = {1};
  folder.write("changes.jsonl",
               "[]\n7\n{\"set\":{\"ranks\":3}}\n{\"jobs\":[\"eval\"]}\n{\"jobs\":[\"gone\"],"
               "\"set\":{\"ranks\":4}}\n");
  record_change(changed, jobs, {{"ranks", 8}}, Time());
  apply_changes(changed);
  CHECK(*changed.jobs[0].resources == Resources());
  CHECK(changed.jobs[1].resources->ranks == 8);
}

TEST_CASE("a change whose line was written in part is ignored", "[changes]") {
  const TempDir folder;
  Plan changed = plan();
  changed.directory = folder.path();
  folder.write("changes.jsonl", R"({"jobs":["eval"],"set":{"ranks":4}})");  // no newline
  apply_changes(changed);
  CHECK(*changed.jobs[1].resources == Resources());
}

TEST_CASE("changed jobs are identified by their first resources", "[changes]") {
  Plan changed = plan();
  const std::vector<uint32_t> jobs = {1};
  change_resources(changed, jobs, {{"ranks", 4}});
  change_resources(changed, jobs, {{"ranks", 8}});
  CHECK(*changed.jobs[0].resources == Resources());
  CHECK(changed.jobs[1].resources->ranks == 8);
  CHECK(changed.changed == std::map<uint32_t, Resources>{{1, Resources()}});
}

TEST_CASE("exact training has the same result on other ranks, so they may change", "[changes]") {
  Plan changed = plan();
  const std::vector<uint32_t> jobs = {2};
  change_resources(changed, jobs, {{"ranks", 4}});
  CHECK(changed.jobs[2].resources->ranks == 4);
}

TEST_CASE("the ranks of training in fast mode decide what it computes", "[changes]") {
  Plan changed = plan();
  const std::vector<uint32_t> jobs = {0};
  CHECK_THROWS_WITH(
      change_resources(changed, jobs, {{"ranks", 4}}),
      Catch::Contains("step 'train'") && Catch::Contains("depends on the number of ranks"));
  change_resources(changed, jobs, {{"ranks", 1}, {"memory", "1GiB"}});
  CHECK(changed.jobs[0].resources->memory_bytes == uint64_t{1} << 30);
}
