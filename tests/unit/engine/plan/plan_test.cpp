#include "engine/plan/plan.h"

#include "tests/support/catch.h"
#include "tests/support/known_by_fingerprint.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using test::KnownByFingerprint;
using test::one_step;
using test::parsed;
using test::plan_of;

namespace {

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const PlannedJob& job : plan.jobs) result.push_back(job.name);
  return result;
}

std::map<std::string, Action> actions(const Plan& plan) {
  std::map<std::string, Action> result;
  for (const PlannedJob& job : plan.jobs) result[job.name] = job.action;
  return result;
}

using Names = std::vector<std::string>;
using Actions = std::map<std::string, Action>;

constexpr const char* kPipeline = R"(
name: w
params: {ranks: 2, lr: [0.1, 0.5]}
steps:
  data:
    run: ./fetch
    outputs: {path: data}
  train:
    matrix: {lr: "${{ params.lr }}"}
    run: [./train, "${{ steps.data.outputs.path }}", "${{ matrix.lr }}"]
    resources: {ranks: "${{ params.ranks }}", memory: 2GiB, walltime: 20m}
    outputs: {model: model.bin}
  best:
    run: [./best, "${{ steps.train.outputs.model }}"]
)";

}  // namespace

TEST_CASE("a step becomes one job per element of its matrix", "[plan]") {
  const Plan plan = plan_of(parsed(kPipeline));
  CHECK(names(plan) == Names{"data", "train[lr=0.1]", "train[lr=0.5]", "best"});
  CHECK(plan.jobs[1].name.element() == "lr=0.1");
  CHECK(plan.jobs[1].resources->ranks == 2);
  CHECK(plan.jobs[1].resources->walltime == std::chrono::minutes(20));
  CHECK(plan.graph.parents(3) == std::vector<JobRange>{{1, 2}});
  CHECK(find_job(plan, "train[lr=0.5]") == 2);
  CHECK_FALSE(find_job(plan, "train").has_value());
}

TEST_CASE("ranks, cores and GPUs change the fingerprint where they may change the result",
          "[plan]") {
  const auto base = [](const std::string& resources, const std::string& step) {
    const Plan plan =
        plan_of(parsed("name: w\nsteps:\n  c: {run: ./c, outputs: {m: m}}\n  t:\n    " + step +
                       "\n    resources: {" + resources + "}\n"));
    return fingerprint_base(plan, *find_job(plan, "t"));
  };
  const auto depends_on = [&](const std::string& resource, const std::string& step) {
    return base(resource + ": 2", step) != base(resource + ": 4", step);
  };
  const auto train = [](const std::string& with) {
    return "uses: train\n    with: {model: '${{ steps.c.outputs.m }}', data: /d, epochs: 1, lr: "
           "0.1" +
           with + "}";
  };
  for (const char* resource : {"ranks", "cpus_per_rank", "gpus_per_rank"}) {
    CHECK(depends_on(resource, "run: ./t"));
  }
  // Without a number a command gets no rank's variables; with `launch: node` the number makes no
  // difference.
  CHECK(base("", "run: ./t") != base("ranks: 1", "run: ./t"));
  CHECK(base("", "run: ./t\n    launch: node") == base("ranks: 1", "run: ./t\n    launch: node"));
  CHECK(base("", train("")) == base("ranks: 1", train("")));
  CHECK_FALSE(depends_on("ranks", train("")));
  CHECK(depends_on("cpus_per_rank", train("")));
  CHECK_FALSE(depends_on("ranks", train(", batch: 256, precision: {leaves: 4}")));
  CHECK(depends_on("ranks", train(", batch_per_rank: 64")));
  CHECK(depends_on("ranks", train(", precision: {reduction: fast}")));
  CHECK(depends_on("ranks: 8, ranks_per_node", train(", precision: {reduction: fast}")));
  CHECK_FALSE(depends_on("ranks: 8, ranks_per_node", train("")));
  CHECK_FALSE(depends_on("ranks", train(", cooperation: {kind: synchronous}")));
  CHECK(depends_on("ranks", train(", cooperation: {kind: gossip}")));
  const std::string stage = "uses: stage\n    with: {sources: [{url: 'https://x/y'}]}";
  CHECK_FALSE(depends_on("cpus_per_rank", stage));
  const auto with_walltime = [&](const char* walltime) {
    return base("walltime: " + std::string(walltime) + ", memory: 2GiB", "run: ./t");
  };
  CHECK(with_walltime("20m") == with_walltime("30m"));
}

TEST_CASE("a command's names and values from the profile are in its fingerprint", "[plan]") {
  const auto base = [](const std::string& name, const Profile& profile = {}) {
    const Workflow workflow = parsed("name: w\nsteps:\n  " + name + ": {run: ./t}\n");
    return fingerprint_base(test::fresh_plan(workflow, profile), 0);
  };
  CHECK(base("replica_1") != base("replica_2"));
  Profile modules;
  modules.setup = {"module load X/1"};
  CHECK(base("a", modules) != base("a"));
  Profile variables;
  variables.environment = {{"OMP_PROC_BIND", "true"}};
  CHECK(base("a", variables) != base("a"));
}

TEST_CASE("the launcher's arguments are in the fingerprint of commands that it starts", "[plan]") {
  const auto base = [](int ranks, const std::vector<std::string>& arguments) {
    Profile profile;
    profile.launcher = {"mpirun", arguments};
    return test::step_base("run: ./t, resources: {ranks: " + std::to_string(ranks) + "}", "/tmp",
                           profile);
  };
  CHECK(base(2, {"-x", "MODE=a"}) != base(2, {"-x", "MODE=b"}));
  CHECK(base(2, {"-x", "MODE=a"}) == base(2, {"-x", "MODE=a"}));
  CHECK(base(1, {"-x", "MODE=a"}) == base(1, {"-x", "MODE=b"}));
}

TEST_CASE("settings of the profile that change numbers are in the fingerprint of training",
          "[plan]") {
  const Profile plain;
  const auto base = [](const std::string& uses, const Profile& profile,
                       const std::string& keys = "") {
    const std::string with = uses == "train"
                                 ? "model: '${{ steps.c.outputs.m }}', data: /d, epochs: 1, lr: 0.1"
                                 : "checkpoint: '${{ steps.c.outputs.m }}', data: /d";
    const Workflow workflow =
        parsed("name: w\nsteps:\n  c: {run: ./c, outputs: {m: m}}\n  t: {uses: " + uses +
               ", resources: {ranks: 2}, with: {" + with + "}" + keys + "}\n");
    const Plan plan = test::fresh_plan(workflow, profile);
    return fingerprint_base(plan, *find_job(plan, "t"));
  };
  for (const char* uses : {"train", "evaluate", "predict"}) {
    Profile variables;
    variables.environment = {{"ONEDNN_MAX_CPU_ISA", "SSE41"}};
    CHECK(base(uses, variables) != base(uses, plain));
    const std::string own = ", env: {ONEDNN_MAX_CPU_ISA: AVX2}";
    CHECK(base(uses, variables, own) == base(uses, plain, own));
    Profile lines;
    lines.setup = {"export OMP_NUM_THREADS=3"};
    CHECK(base(uses, lines) != base(uses, plain));
    Profile launched;
    launched.launcher.arguments = {"-x", "GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA"};
    CHECK(base(uses, launched) != base(uses, plain));
    Profile other;  // another cluster, the same numbers
    other.environment = {{"OMP_PROC_BIND", "true"}, {"NCCL_SOCKET_IFNAME", "ib0"}};
    other.setup = {"module load openmpi"};
    other.launcher = {"srun", {"--mpi=pmix"}};
    CHECK(base(uses, other) == base(uses, plain));
  }
}

TEST_CASE("the command of the container is in the fingerprint of steps in a container", "[plan]") {
  const auto base = [](const std::string& keys, const std::vector<std::string>& command,
                       const std::vector<std::string>& arguments) {
    Profile profile;
    profile.container.command = command;
    profile.container.arguments = arguments;
    const Workflow workflow =
        parsed("name: w\nimages: {i: {from: 'docker://x', digest: 'sha256:" + std::string(64, 'a') +
               "'}}\nsteps:\n  c: {run: ./c, outputs: {m: m}}\n  a: {" + keys + "}\n");
    const Plan plan = test::fresh_plan(workflow, profile);
    return fingerprint_base(plan, *find_job(plan, "a"));
  };
  const std::vector<std::string> changed = {"env", "MODE=a", "apptainer"};
  CHECK(base("run: ./a, image: i", changed, {}) != base("run: ./a, image: i", {}, {}));
  CHECK(base("run: ./a", changed, {}) == base("run: ./a", {}, {}));

  const std::string train =
      "uses: train, image: i, with: {model: '${{ steps.c.outputs.m }}', data: /d, epochs: 1, lr: "
      "0.1}";
  const std::vector<std::string> slow = {"--env", "ONEDNN_MAX_CPU_ISA=SSE41"};
  CHECK(base(train, {}, slow) != base(train, {}, {}));
  CHECK(base(train, slow, {}) != base(train, {}, {}));
  CHECK(base(train, changed, {"--nv"}) == base(train, {}, {}));
}

TEST_CASE("a step with external effects runs each time", "[plan]") {
  const Workflow workflow = parsed(
      "name: w\nsteps:\n  a: {uses: stage-out, with: {from: /nowhere, to: 'file:///x/'}}\n"
      "  b: {run: ./b, needs: a}\n  c: {run: ./c, if: '${{ always() }}'}\n");
  test::KnownByFingerprint known;
  known.learn(plan_of(workflow));
  FreshFileHashes hashes;
  const Plan plan = make_plan(workflow, Profile(), {}, known, hashes);
  CHECK(plan.jobs[0].action == Action::Run);
  CHECK(plan.jobs[0].cause == Cause::ActsOutside);
  CHECK(plan.jobs[1].action == Action::DecideLater);
  CHECK(plan.jobs[2].action == Action::Run);
  CHECK(plan.jobs[2].cause == Cause::Always);
}

TEST_CASE("resources may depend on the element", "[plan]") {
  const Plan plan = plan_of(
      one_step("run: 'true', matrix: {ranks: [1, 4]}, resources: {ranks: '${{ matrix.ranks }}'}"));
  CHECK(plan.jobs[0].resources->ranks == 1);
  CHECK(plan.jobs[1].resources->ranks == 4);
}

TEST_CASE("an element with impossible resources is named with its place in the file", "[plan]") {
  Workflow workflow = parsed(R"(name: w
steps:
  a:
    run: "true"
    matrix: {ranks: [1, 2]}
    resources: {ranks: "${{ matrix.ranks }}"}
)");
  workflow.steps[0].matrix.axes[0].values[1] = 0;  // the parser would refuse it
  CHECK_THROWS_WITH(plan_of(workflow), Catch::Contains("workflow.yaml:6:") &&
                                           Catch::Contains("step 'a[ranks=0]'") &&
                                           Catch::Contains("ranks"));
}

TEST_CASE("elements with equal labels get distinct names", "[plan]") {
  const Plan plan = plan_of(one_step("run: 'true', matrix: {file: ['x/y', 'x y', 'x:y']}"));
  CHECK(names(plan) == Names{"a[file=x_y]", "a[file=x_y-2]", "a[file=x_y-3]"});
}

TEST_CASE("a long label still fits a folder name", "[plan]") {
  const std::string value(300, 'x');
  const Plan plan = plan_of(one_step("run: 'true', matrix: {v: [" + value + "1, " + value + "2]}"));
  for (const PlannedJob& job : plan.jobs) CHECK(job.name.element().size() < 200);
  CHECK(plan.jobs[0].name != plan.jobs[1].name);
}

TEST_CASE("until omits unneeded steps", "[plan]") {
  PlanOptions options;
  options.until = "data";
  CHECK(names(plan_of(parsed(kPipeline), options)) == Names{"data"});
  options.until = "dat";
  CHECK_THROWS_WITH(plan_of(parsed(kPipeline), options), Catch::Contains("did you mean 'data'?"));
}

TEST_CASE("without earlier results the first jobs run and the others are decided later", "[plan]") {
  CHECK(actions(plan_of(parsed(kPipeline))) == Actions{{"data", Action::Run},
                                                       {"train[lr=0.1]", Action::DecideLater},
                                                       {"train[lr=0.5]", Action::DecideLater},
                                                       {"best", Action::DecideLater}});
}

TEST_CASE("a known job is reused, and its dependents are looked up with its outputs", "[plan]") {
  KnownByFingerprint known;
  known.learn(plan_of(parsed(kPipeline)));
  const Plan plan = plan_of(parsed(kPipeline), {}, &known);
  for (const PlannedJob& job : plan.jobs) CHECK(job.action == Action::Reuse);
  CHECK(plan.reused.at(3).job == "best");
}

TEST_CASE("a changed step runs, its ancestors are reused, and its dependents wait", "[plan]") {
  KnownByFingerprint known;
  known.learn(plan_of(parsed(kPipeline)));
  const Plan plan = plan_of(parsed(kPipeline, "/tmp", {"lr=[0.1, 0.7]"}), {}, &known);
  CHECK(actions(plan) == Actions{{"data", Action::Reuse},
                                 {"train[lr=0.1]", Action::Reuse},
                                 {"train[lr=0.7]", Action::Run},
                                 {"best", Action::DecideLater}});
}

TEST_CASE("a forced step runs although its result is known", "[plan]") {
  KnownByFingerprint known;
  known.learn(plan_of(parsed(kPipeline)));
  PlanOptions options;
  options.force = {"data"};
  const Plan plan = plan_of(parsed(kPipeline), options, &known);
  CHECK(plan.jobs[0].cause == Cause::Forced);
  CHECK(plan.jobs[1].action == Action::DecideLater);
  options.force = {"nothing"};
  CHECK_THROWS_WITH(plan_of(parsed(kPipeline), options), Catch::Contains("no step 'nothing'"));
}

TEST_CASE("a job's spec has its known values, and leaves the rest for later", "[plan]") {
  const Plan plan = plan_of(parsed(kPipeline));
  const JobSpec spec = job_spec(plan, 2);
  CHECK(spec.job == "train[lr=0.5]");
  CHECK(spec.element == Json{{"lr", 0.5}});
  CHECK(spec.run_command == Json{"./train", "${{ steps.data.outputs.path }}", 0.5});
  CHECK(spec.job_directory == "/runs/w-0000/steps/train/lr=0.5");
  REQUIRE(spec.parents.size() == 1);
  CHECK(spec.parents[0].step == "data");
  CHECK(spec.parents[0].directory == "/runs/w-0000/steps/data");
  CHECK(spec.fingerprint_base == fingerprint_base(plan, 2));
}

TEST_CASE("a reused parent lies in the run that made it", "[plan]") {
  Plan plan = plan_of(parsed(kPipeline));
  plan.reused[0] = {.run = "w-1111", .job = "data", .directory = "/runs/w-1111/steps/data"};
  CHECK(job_spec(plan, 1).parents[0].directory == "/runs/w-1111/steps/data");
}

TEST_CASE("more than one rank is started by the profile's launcher", "[plan]") {
  Plan plan = plan_of(parsed(kPipeline));
  plan.profile.launcher.arguments = {"--bind-to", "none"};
  CHECK(job_spec(plan, 0).launcher.empty());
  CHECK(job_spec(plan, 1).launcher ==
        std::vector<std::string>{"mpirun", "--bind-to", "none", "-np", "2"});
  plan.profile.launcher = {"/usr/bin/srun", {"--mpi=pmix"}};
  CHECK(job_spec(plan, 1).launcher ==
        std::vector<std::string>{"/usr/bin/srun", "--mpi=pmix", "-n", "2", "-c", "1"});
}

TEST_CASE("the step's environment overrides the profile's", "[plan]") {
  Plan plan = plan_of(one_step("run: 'true', env: {BOTH: step}"));
  plan.profile.environment = {{"BOTH", "profile"}, {"ONE", "profile"}};
  CHECK(job_spec(plan, 0).environment == Json{{"BOTH", "step"}, {"ONE", "profile"}});
}

TEST_CASE("matrices with exclude or include have the expected elements", "[plan]") {
  CHECK(names(plan_of(parsed(R"(
name: w
steps:
  a: {run: "true", matrix: {x: [1, 2]}}
  b: {run: "true", matrix: {x: [1, 2], exclude: [{x: 1}]}}
  c: {run: "true", matrix: {x: [1, 2], exclude: [{x: 2}]}}
  d: {run: "true", matrix: {x: [1, 2], include: [{x: 3}]}}
  e: {run: "true", matrix: {y: [1, 2]}}
  f: {run: "true", matrix: {x: [1, 4]}}
)"))) == Names{"a[x=1]", "a[x=2]", "b[x=2]", "c[x=1]", "d[x=1]", "d[x=2]", "d[x=3]", "e[y=1]",
               "e[y=2]", "f[x=1]", "f[x=4]"});
}

TEST_CASE("a dependency of all on all is refused before it fills the memory", "[plan]") {
  Workflow workflow = parsed(R"(name: w
steps:
  a: {run: "true", matrix: {x: [0]}}
  b: {run: "true", matrix: {y: [0]}, needs: [a]}
)");
  for (Step& step : workflow.steps) step.matrix.axes[0].values.assign(3'000, 1);
  CHECK_THROWS_WITH(plan_of(workflow),
                    Catch::Contains("workflow.yaml:4:") && Catch::Contains("9000000 dependencies"));
}
