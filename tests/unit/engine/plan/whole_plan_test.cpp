#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "engine/gridengine/section.h"
#include "engine/plan/changes.h"
#include "engine/plan/plan_json.h"
#include "engine/plan/run_directory.h"
#include "engine/slurm/section.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using namespace std::chrono_literals;
using test::parsed;
using test::TempDir;

namespace {

const Digest kDigest = Digest::of_hex(std::string(64, '1'));

/// Fails to compile when Profile has a new field, which must then be added to whole_profile().
[[maybe_unused]] void know_every_field(const Profile& profile) {
  [[maybe_unused]] const auto& [name, file, extended_files, scheduler, cores, memory, gpus,
                                batch_options, ranks_per_node, node, limits, launcher, container,
                                setup, environment, inherit, runs, cache, cache_budget, scratch,
                                scratch_budget, exclude_nodes, submit_from_jobs, classes] = profile;
}

/// The same for a class, which the steps below name.
[[maybe_unused]] void know_every_field(const NodeClass& node_class) {
  [[maybe_unused]] const auto& [name, local, batch_options, ranks_per_node, node, limits, launcher,
                                setup] = node_class;
}

NodeClass whole_class() {
  return {
      .name = "big",
      .local = true,
      .batch_options = {{"slurm",
                         json_of(SlurmOptions{
                             "big", "b", "r", "d", "s", true, "gpu:h100:{gpus}", {"--hint=y"}})},
                        {"gridengine", json_of(GridEngineOptions{
                                           "r", "q", "smp", "mem", "gpus={gpus}", {"-R n"}})}},
      .ranks_per_node = 27,
      .node = {28, 29, 30},
      .limits = {31s, 32, 33, 34, 35, 36, 37s},
      .launcher = {"mpirun", {"-x"}},
      .setup = {"module load other"}};
}

/// Every field differs from its default.
Profile whole_profile() {
  Profile profile;
  profile.name = "alpha";
  profile.file = "/profiles/alpha.yaml";
  profile.scheduler = "slurm";
  profile.cores = 11;
  profile.memory_bytes = 12;
  profile.gpus = 13;
  profile.batch_options["slurm"] =
      json_of(SlurmOptions{"gpu", "a", "q", "c", "r", true, "gpu:a100:{gpus}", {"--hint=x"}});
  profile.batch_options["gridengine"] =
      json_of(GridEngineOptions{"q", "p", "mpi", "h_vmem", "gpu={gpus}", {"-R y"}});
  profile.ranks_per_node = 14;
  profile.node = {15, 16, 17};
  profile.limits = {18s, 19, 20, 21, 22, 23, 24s};
  profile.launcher = {"/usr/bin/srun", {"--mpi=pmix"}};
  profile.container = {"podman", {"podman-remote"}, "P2", {"--x"}, {"/data"}};
  profile.setup = {"module load mpi"};
  profile.environment = {{"BOTH", "profile"}, {"ONE", "profile"}};
  profile.inherit = {"WANDB_*"};
  profile.runs = "/all/runs";
  profile.cache = "/cache";
  profile.cache_budget_bytes = 25;
  profile.scratch = "/local";
  profile.scratch_budget_bytes = 26;
  profile.exclude_nodes = 38;
  profile.submit_from_jobs = false;
  profile.classes = {whole_class()};
  return profile;
}

/// A step with all possible keys, and its parent.
constexpr const char* kWhole = R"(
name: whole
params: {seen: 1, late: 2, unseen: 3}
images: {torch: {from: "oci:images/torch"}}
steps:
  data: {run: ./data, on: big, outputs: {path: data}}
  t:
    run: [./t, "${{ steps.data.outputs.path }}", "${{ run.id }}", "${{ matrix.x }}"]
    matrix: {x: [7, 8]}
    env: {BOTH: step, SEEN: "DLFLOW_PARAM_SEEN", LATE: "${{ format('{0}{1}', steps.data.outputs.path, params.late) }}"}
    secrets: [TOKEN]
    if: "${{ steps.data.metrics.ok > 0 && always() }}"
    allow_failure: true
    image: torch
    launch: node
    on: big
    resources: {ranks: 2, cpus_per_rank: 3, gpus_per_rank: 1, memory: 1GiB, walltime: 20m, ranks_per_node: 2, exclusive: true, licences: {matlab: 3}}
    checkpoint: {every: 200 steps, keep: 4}
    retry: {attempts: 5, on: [failure, 3, timeout], memory_factor: 1.5, walltime_factor: 2}
    require: {accuracy: ">= 0.88"}
    outputs: {model: model.bin}
    inputs: [t.py, {path: DATA, hash: content}]
    reuse: {environment: [MODE]}
)";

struct Whole {
  TempDir folder;
  Plan plan;

  Whole() {
    folder.write("t.py", "print(1)");
    folder.write("elsewhere/set", "a set");
    std::string text = kWhole;
    text.replace(text.find("DATA"), 4, (folder.path() / "elsewhere/set").string());
    plan = test::fresh_plan(parsed(text, folder.path()), whole_profile());
    plan.run = "whole-0000";
    plan.directory = "/runs/whole-0000";
  }
};

}  // namespace

TEST_CASE("a job's spec has all settings of its step, the profile and the plan", "[plan]") {
  const Whole whole;
  const std::string here = whole.folder.path();
  const JobSpec spec = job_spec(whole.plan, 2);
  CHECK(spec.fingerprint_base == fingerprint_base(whole.plan, 2));
  Json json = to_json(spec);
  json.erase("fingerprint_base");
  const std::string set = here + "/elsewhere/set";
  const Json expected = {
      {"run", "whole-0000"},
      {"job", "t[x=8]"},
      {"step", "t"},
      {"element", {{"x", 8}}},
      {"uses", ""},
      {"run_command", {"./t", "${{ steps.data.outputs.path }}", "whole-0000", 8}},
      {"with", Json::object()},
      {"environment",
       {{"BOTH", "step"},
        {"ONE", "profile"},
        {"SEEN", "DLFLOW_PARAM_SEEN"},
        {"LATE", "${{ format('{0}{1}', steps.data.outputs.path, params.late) }}"}}},
      {"inherit", {"WANDB_*"}},
      {"secrets", {"TOKEN"}},
      {"condition", "${{ steps.data.metrics.ok > 0 && always() }}"},
      {"params", {{"seen", 1}}},
      {"late_params", {{"late", 2}}},
      {"sees_run", true},
      {"resources",
       {{"ranks", 2},
        {"cpus_per_rank", 3},
        {"gpus_per_rank", 1},
        {"memory_bytes", 1 << 30},
        {"walltime_s", 1200},
        {"ranks_per_node", 2},
        {"exclusive", true},
        {"licences", {{"matlab", 3}}},
        {"alone", false}}},
      {"container",
       {{"image", "torch"},
        {"from", "oci:" + here + "/images/torch"},
        {"digest", ""},
        {"build", nullptr},
        {"runtime", "podman"},
        {"command", {"podman-remote"}},
        {"mode", "P2"},
        {"arguments", {"--x"}},
        {"binds", {"/data"}}}},
      {"launch", "node"},
      {"checkpoint",
       {{"every", 200},
        {"unit", "steps"},
        {"keep", 4},
        {"signal", "SIGUSR1"},
        {"lead_s", 0},
        {"newer", ""}}},
      {"retry",
       {{"attempts", 5},
        {"on", {"failure", "timeout"}},
        {"exit_codes", {3}},
        {"memory_factor", 1.5},
        {"walltime_factor", 2.0}}},
      {"allow_failure", true},
      {"always", true},
      {"require", {{{"metric", "accuracy"}, {"comparison", ">="}, {"bound", 0.88}}}},
      {"outputs", {{"model", "model.bin"}}},
      {"lists", Json::array()},
      {"parents",
       {{{"step", "data"},
         {"element", Json::object()},
         {"directory", "/runs/whole-0000/steps/data"}}}},
      {"inputs", {{"t.py", "/runs/whole-0000/sources/t.py"}}},
      {"data", {set}},
      {"sources",
       {{"frozen", {{"/runs/whole-0000/sources/t.py", whole.plan.files.at("t.py")}}},
        {"outside", {{set, whole.plan.outside.at(set)}}},
        {"packages", Json::object()},
        {"variables", {{"MODE", ""}}},
        {"programs", Json::object()},
        {"inherited", Json::object()}}},
      {"base", whole.plan.base.string()},
      {"run_directory", "/runs/whole-0000"},
      {"job_directory", "/runs/whole-0000/steps/t/x=8"},
      {"cache", "/cache"},
      {"cache_budget_bytes", 25},
      {"scratch", "/local"},
      {"scratch_budget_bytes", 26},
      {"node_memory_bytes", 29},
      {"walltime_limit_s", 31},
      {"launcher", {"mpirun", "-x"}},
      {"setup", {"module load other"}},
      {"reuse", false}};  // it always runs
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(json.value(key, Json()) == value);
  }
  CHECK(json.size() == expected.size());
}

TEST_CASE("a forced step, or one with external effects, takes no shared result", "[plan]") {
  Whole whole;
  const auto reuses = [&](Cause cause) {
    whole.plan.jobs[0].cause = cause;
    return job_spec(whole.plan, 0).reuse;
  };
  CHECK_FALSE(reuses(Cause::Forced));
  CHECK_FALSE(reuses(Cause::ActsOutside));
  CHECK_FALSE(reuses(Cause::Always));
  CHECK(reuses(Cause::NoResult));
  CHECK(reuses(Cause::WaitsForParents));
}

TEST_CASE("a model and data that a step reads are verified when it runs", "[plan]") {
  const TempDir folder;
  folder.write("m.yaml", "a model");
  folder.write("d/x", "data");
  Plan plan =
      test::fresh_plan(parsed("name: w\nsteps:\n  a: {uses: train, with: {model: m.yaml, data: d, "
                              "epochs: 1, lr: 0.1}}\n",
                              folder.path()));
  plan.directory = "/runs/w-0000";
  const std::string data = folder.path() / "d";
  CHECK(job_spec(plan, 0).sources ==
        SourceProofs{{{"/runs/w-0000/sources/m.yaml", plan.files.at("m.yaml")}},
                     {{data, plan.outside.at("d")}},
                     {},
                     {},
                     {},
                     {}});
}

TEST_CASE("an image of a registry keeps its name", "[plan]") {
  const Plan plan =
      test::fresh_plan(parsed("name: w\nimages: {i: {from: 'docker://a:1'}}\nsteps: {a: "
                              "{image: i, on: big, run: [x]}}\n"),
                       whole_profile());
  CHECK(job_spec(plan, 0).container->from == "docker://a:1");
}

TEST_CASE("a cache is in the profile's folder or in the user's cache folder", "[plan]") {
  const test::Variable cache_home("XDG_CACHE_HOME", "/x");
  const test::Variable home("HOME", "/h");
  CHECK(cache_directory(whole_profile()) == "/cache");
  CHECK(cache_directory(Profile()) == "/x/dlflow");
  for (const auto& unset : {std::optional<std::string>(), std::optional<std::string>("")}) {
    cache_home.set(unset);
    home.set("/h");
    CHECK(cache_directory(Profile()) == "/h/.cache/dlflow");
    home.set(unset);
    CHECK_THROWS_WITH(cache_directory(Profile()), Catch::Contains("set HOME"));
  }
}

TEST_CASE("a command's fingerprint covers all properties of its job", "[plan]") {
  Whole whole;
  const Json base = Json::parse(fingerprint_base(whole.plan, 2));
  std::vector<std::string> keys;
  for (const auto& [key, value] : base.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{
                    "checkpoint", "command", "condition", "environment", "files",   "image",
                    "job",        "kind",    "launch",    "matrix",      "metrics", "outputs",
                    "params",     "profile", "require",   "resources",   "reuse",   "run",
                    "secrets",    "values",  "version"});
  CHECK(base.at("resources") ==
        Json{{"ranks", 2}, {"cpus_per_rank", 3}, {"gpus_per_rank", 1}, {"ranks_per_node", 2}});
  CHECK(base.at("job") == "t[x=8]");
  CHECK(base.at("run") == "whole-0000");
  CHECK(base.at("metrics") == Json{{"data", {"ok"}}});
  CHECK(base.at("values") == Json{{"params.late", 2}});
  CHECK(base.at("checkpoint") == Json{{"unit", 1}, {"every", 200}, {"keep", 4}});
  CHECK(base.at("require") == Json{{"accuracy", {{">=", 0.88}}}});
  CHECK(base.at("profile") == Json{{"arguments", {"--x"}},
                                   {"binds", {"/data"}},
                                   {"command", {"podman-remote"}},
                                   {"environment", {{"BOTH", "profile"}, {"ONE", "profile"}}},
                                   {"launcher", {"-x"}},
                                   {"setup", {"module load other"}}});
  CHECK(base.at("files").size() == 2);

  whole.plan.workflow.steps[1].image.clear();  // binds count only in containers
  CHECK(Json::parse(fingerprint_base(whole.plan, 2)).at("profile").size() == 3);
}

TEST_CASE("a run's fingerprints are those of its own programs, whichever version continues it",
          "[plan]") {
  Whole whole;
  whole.plan.steps[1].version = 1;  // the version of the dlflow that froze it
  const std::string base = fingerprint_base(whole.plan, 2);
  CHECK(Json::parse(base).at("version") == 1);
  create_run_directory(whole.plan, whole.folder.path() / "runs",
                       from_rfc3339("2026-11-21T08:00:00.123Z"),
                       whole.folder.write("bin/dlflow", "the program"));
  CHECK(Json::parse(fingerprint_base(load_run(whole.plan.directory), 2)).at("version") == 1);
}

TEST_CASE("every setting of a plan is frozen and read back", "[plan]") {
  Whole whole;
  Plan& plan = whole.plan;
  plan.created = from_rfc3339("2026-11-21T08:00:00.123Z");
  plan.options = {.until = "t", .force = {"data"}, .set = {"epochs=3"}};
  plan.workflow.images[0].digest = kDigest;
  plan.reused[1] = {.run = "whole-1111",
                    .job = "t[x=7]",
                    .directory = "/runs/whole-1111/steps/t/x=7",
                    .fingerprint = Fingerprint::of_hex(std::string(64, 'f')),
                    .outputs = {{"model", {{"value", "/m"}, {"sha256", "0a"}}}},
                    .metrics = {{"loss", 0.5}}};
  const FrozenSettings settings = frozen_settings_from_json(frozen_settings(plan));
  const Plan& frozen = settings.plan;
  CHECK(frozen.run == plan.run);
  CHECK(frozen.created == plan.created);
  CHECK(frozen.workflow.file == plan.workflow.file);
  CHECK(frozen.base == whole.folder.path());
  CHECK(frozen.workflow.params == Json{{"seen", 1}, {"late", 2}, {"unseen", 3}});
  CHECK(frozen.options.until == "t");
  CHECK(frozen.options.force == std::vector<std::string>{"data"});
  CHECK(frozen.options.set == std::vector<std::string>{"epochs=3"});
  CHECK(frozen.profile == whole_profile());
  CHECK(settings.images == std::map<std::string, Digest>{{"torch", kDigest}});
  CHECK(frozen.files == plan.files);
  CHECK(frozen.files.size() == 1);
  CHECK(frozen.outside == plan.outside);
  CHECK(frozen.outside.size() == 1);
  CHECK(frozen.data == plan.data);
  CHECK(frozen.data.size() == 1);
  REQUIRE(settings.steps.size() == 2);
  const FrozenStep &data = settings.steps.at("data"), &train = settings.steps.at("t");
  CHECK(data.inputs.empty());
  CHECK(data.visible_params == Json::object());
  CHECK(data.conditions == Json::object());
  CHECK_FALSE(data.sees_run);
  CHECK(train.inputs == std::vector<std::string>{"t.py"});
  CHECK(train.visible_params == Json{{"seen", 1}});
  CHECK(train.conditions == Json{{"environment", {{"MODE", ""}}}});
  CHECK(train.sees_run);
  REQUIRE(settings.reused.size() == 1);
  const KnownResult& reused = settings.reused.at("t[x=7]");
  CHECK(reused.run == "whole-1111");
  CHECK(reused.job == "t[x=7]");
  CHECK(reused.directory == "/runs/whole-1111/steps/t/x=7");
  CHECK(reused.fingerprint == plan.reused[1].fingerprint);
  CHECK(reused.outputs == plan.reused[1].outputs);
  CHECK(reused.metrics == plan.reused[1].metrics);
}

TEST_CASE("a plan that an older dlflow froze keeps its meaning", "[plan]") {
  const Whole whole;
  Json json = frozen_settings(whole.plan);
  json.erase("images");
  json.erase("data");
  json["steps"]["t"].erase("conditions");
  json["steps"]["data"].erase("sees_run");
  json["steps"]["t"].erase("version");
  for (const char* key : {"container", "inherit", "scratch_budget_bytes", "classes",
                          "exclude_nodes", "submit_from_jobs"}) {
    json["profile"].erase(key);
  }
  json["profile"]["limits"].erase("submit_interval_s");
  const FrozenSettings settings = frozen_settings_from_json(json);
  CHECK(settings.images.empty());
  CHECK(settings.plan.data.empty());
  CHECK(settings.steps.at("t").conditions == Json::object());
  CHECK(settings.steps.at("t").version == 0);  // a version that no current dlflow has
  CHECK(settings.steps.at("t").sees_run);
  CHECK(settings.steps.at("data").sees_run);
  Profile expected = whole_profile();
  expected.container = {};
  expected.inherit.clear();
  expected.scratch_budget_bytes = 0;
  expected.exclude_nodes = 0;
  expected.submit_from_jobs = true;
  expected.classes.clear();
  expected.limits.submit_interval = 0s;
  CHECK(settings.plan.profile == expected);
}

TEST_CASE("a run that is loaded again is the plan that was frozen, in every part", "[plan]") {
  Whole whole;
  Plan& plan = whole.plan;
  plan.workflow.images[0].digest = kDigest;
  plan.profile.runs = whole.folder.path() / "runs";
  create_run_directory(plan, whole.folder.path() / "runs", from_rfc3339("2026-11-21T08:00:00.123Z"),
                       whole.folder.write("bin/dlflow", "the program"));
  const std::vector<uint32_t> jobs = {1};
  const Json settings = {{"walltime", "40m"}};
  change_resources(plan, jobs, settings);
  record_change(plan, jobs, settings, plan.created);
  const Plan loaded = load_run(plan.directory);
  CHECK(frozen_settings(loaded) == frozen_settings(plan));
  CHECK(loaded.directory == plan.directory);
  CHECK(loaded.base == plan.base);
  CHECK(loaded.changed == plan.changed);
  REQUIRE(loaded.jobs.size() == 3);
  for (uint32_t job = 0; job < 3; ++job) {
    CHECK(loaded.jobs[job].name == plan.jobs[job].name);
    CHECK(*loaded.jobs[job].resources == *plan.jobs[job].resources);
    CHECK(loaded.jobs[job].action == plan.jobs[job].action);
    CHECK(loaded.jobs[job].cause == plan.jobs[job].cause);
    CHECK(to_json(job_spec(loaded, job)) == to_json(job_spec(plan, job)));
  }
  CHECK(loaded.jobs[1].resources->walltime == 40min);
  CHECK(job_spec(loaded, 1).container->digest == kDigest);
  CHECK(run_profile(plan.directory) == plan.profile);
}

TEST_CASE("each cause of an action has its own text", "[plan]") {
  CHECK(words(Cause::NoResult) == "there is no earlier result");
  CHECK(words(Cause::Forced) == "forced");
  CHECK(words(Cause::ActsOutside) == "its files are compared with those at the destination");
  CHECK(words(Cause::Always) == "in each run, because of `always()`");
  CHECK(words(Cause::NothingChanged) == "nothing relevant changed");
  CHECK(words(Cause::WaitsForParents) == "decided once its parents are done");
}
