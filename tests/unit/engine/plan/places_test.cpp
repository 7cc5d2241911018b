#include "engine/plan/places.h"

#include "base/error.h"
#include "engine/plan/changes.h"
#include "tests/support/answers.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::check_answers;

namespace {

/// A cluster with nodes for all jobs, nodes with GPUs, one node for transfers, and a login node.
Profile classes() {
  Profile profile;
  profile.name = "alpha";
  profile.scheduler = "slurm";
  Profile cpu = profile;
  cpu.batch_options["slurm"]["partition"] = "cpu";
  cpu.node = {.cores = 16, .memory_bytes = uint64_t{64} << 30, .gpus = 0};
  cpu.limits.walltime = 4h;
  cpu.limits.nodes = 2;
  Profile gpu = profile;
  gpu.batch_options["slurm"]["partition"] = "gpu";
  gpu.node = {.cores = 64, .memory_bytes = uint64_t{512} << 30, .gpus = 4};
  gpu.limits.walltime = 48h;
  gpu.setup = {"module load cuda"};
  Profile transfer = profile;
  transfer.batch_options["slurm"]["partition"] = "io";
  transfer.limits.walltime = 24h;
  transfer.node.cores = 1;
  profile.classes = {as_class(cpu, "cpu", false), as_class(gpu, "gpu", false),
                     as_class(transfer, "transfer", false), as_class(profile, "login", true)};
  return profile;
}

Plan plan_for(const std::string& steps, const Profile& profile = classes()) {
  return test::fresh_plan(test::parsed("name: w\nsteps:\n" + steps), profile);
}

/// Returns the class of a single step with these resources.
std::string class_for(const std::string& resources, const Profile& profile = classes()) {
  const Plan plan = plan_for("  a: {run: x, resources: {" + resources + "}}\n", profile);
  return plan.jobs[0].place ? profile.classes[*plan.jobs[0].place].name : "none";
}

std::string refusal_of(const std::string& steps, const Profile& profile = classes()) {
  try {
    plan_for(steps, profile);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a step takes the first class that fits its resources", "[places]") {
  check_answers([](const std::string& resources) { return class_for(resources); },
                {{"walltime: 4h", "cpu"},
                 {"", "cpu"},
                 {"gpus_per_rank: 1", "gpu"},
                 {"walltime: 12h", "gpu"},
                 {"cpus_per_rank: 17", "gpu"},
                 {"memory: 65GiB", "gpu"},
                 {"nodes: 3", "gpu"},
                 {"ranks: 32, ranks_per_node: 16", "cpu"},
                 {"ranks: 32, ranks_per_node: 32", "gpu"},
                 {"ranks: 8, ranks_per_node: 4, gpus_per_rank: 1", "gpu"},
                 {"nodes: 2, memory: 128GiB", "cpu"}});
}

TEST_CASE("elements of a matrix with different resources go to different classes", "[places]") {
  const Plan plan = plan_for(
      "  a: {run: x, matrix: {g: [0, 2]}, resources: {gpus_per_rank: \"${{ matrix.g }}\"}}\n");
  CHECK(profile_of(plan, plan.jobs[0]).batch_options.at("slurm").at("partition") == "cpu");
  CHECK(profile_of(plan, plan.jobs[1]).batch_options.at("slurm").at("partition") == "gpu");
}

TEST_CASE("a step goes to the class that it names, even if an earlier one fits", "[places]") {
  const Plan plan = plan_for("  a: {run: x, on: transfer}\n  b: {run: x, on: login}\n");
  CHECK(profile_of(plan, plan.jobs[0]).batch_options.at("slurm").at("partition") == "io");
  CHECK_FALSE(is_on_login_node(plan, plan.jobs[0]));
  CHECK(is_on_login_node(plan, plan.jobs[1]));
}

TEST_CASE("an unknown class is refused with the existing ones", "[places]") {
  CHECK(refusal_of("  a: {run: x, on: transfers}\n") ==
        "/tmp/workflow.yaml:3:19: error: step 'a' is to run on 'transfers', but the profile alpha "
        "has only the classes cpu, gpu, transfer, login; did you mean 'transfer'?");
  Profile without = classes();
  without.classes.clear();
  CHECK_THAT(refusal_of("  a: {run: x, on: gpu}\n", without),
             Catch::EndsWith("the profile alpha has no classes; add `classes: {gpu: …}` to it"));
}

TEST_CASE("a step that fits no class is refused with the reason for each", "[places]") {
  CHECK(refusal_of("  a:\n    run: x\n    resources: {gpus_per_rank: 8, walltime: 4h}\n") ==
        R"(/tmp/workflow.yaml:5:16: error: no class of the profile alpha fits step 'a'
       cpu has no GPUs (node: {gpus: N})
       gpu has 4 GPUs on a node, not 8
       transfer has no GPUs (node: {gpus: N})
       login runs steps that name it, on the login node
       Ask for less, or name a class: `on: cpu`.)");
}

TEST_CASE("this machine has no classes, so that the same text runs here", "[places]") {
  Profile local = classes();
  local.scheduler = "local";
  const Plan plan = plan_for("  a: {run: x, on: nowhere}\n", local);
  CHECK_FALSE(plan.jobs[0].place);
  CHECK(&profile_of(plan, plan.jobs[0]) == &plan.profile);
}

TEST_CASE("a profile without classes places nothing", "[places]") {
  Profile without = classes();
  without.classes.clear();
  CHECK(class_for("gpus_per_rank: 8", without) == "none");
}

TEST_CASE("the class is not in the fingerprint, but the variables of its setup are", "[places]") {
  const auto base = [](const std::string& on, const std::string& what) {
    return fingerprint_base(plan_for("  a: {" + what + ", on: " + on + "}\n"), 0);
  };
  CHECK(base("cpu", "run: x") == base("transfer", "run: x"));
  CHECK(base("cpu", "run: x") != base("gpu", "run: x"));
  const std::string kind = "uses: stage, with: {sources: [{url: 'https://x.org/y', sha256: '" +
                           std::string(64, 'a') + "'}]}";
  CHECK(base("cpu", kind) == base("gpu", kind));
}

TEST_CASE("a job gets the settings of its class", "[places]") {
  Plan plan = plan_for("  a: {run: x, resources: {gpus_per_rank: 1}}\n");
  plan.directory = "/runs/w-0000";
  const JobSpec spec = job_spec(plan, 0);
  CHECK(spec.setup == std::vector<std::string>{"module load cuda"});
  CHECK(spec.node_memory_bytes == uint64_t{512} << 30);
}

TEST_CASE("a job that is submitted again with larger requests goes to another class", "[places]") {
  Plan plan = plan_for("  a: {run: x, resources: {walltime: 4h}}\n");
  const std::vector<uint32_t> jobs = {0};
  change_resources(plan, jobs, {{"walltime", "12h"}});
  CHECK(profile_of(plan, plan.jobs[0]).batch_options.at("slurm").at("partition") == "gpu");
}

TEST_CASE("a job with a reused result needs no class", "[places]") {
  Plan plan = plan_for("  a: {run: x}\n");
  plan.jobs[0].action = Action::Reuse;
  plan.jobs[0].resources = std::make_shared<const Resources>(Resources{.walltime = 100h});
  place_jobs(plan);
  CHECK_FALSE(plan.jobs[0].place);
  plan.jobs[0].action = Action::Run;
  CHECK_THROWS_WITH(place_jobs(plan), Catch::Contains("no class of the profile alpha fits"));
}
