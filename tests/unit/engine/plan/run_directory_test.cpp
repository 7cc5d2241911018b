#include "engine/plan/run_directory.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "engine/plan/fingerprint_base.h"
#include "engine/plan/programs.h"
#include "engine/plan/sources.h"
#include "engine/slurm/section.h"
#include "tests/support/catch.h"
#include "tests/support/in_child.h"
#include "tests/support/known_by_fingerprint.h"
#include "tests/support/parsed.h"
#include "tests/support/skip.h"
#include "tests/support/syscalls.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using test::parsed;
using test::TempDir;

namespace fs = std::filesystem;

namespace {

const Time kNow = from_rfc3339("2026-11-21T08:00:00.123Z");

constexpr const char* kRunText = R"(
name: mnist
params: {lr: [0.1, 0.5], note: "1.10"}
steps:
  data: {run: ./fetch, outputs: {path: data}}
  train:
    matrix: {lr: "${{ params.lr }}"}
    run: [python3, train.py, "${{ steps.data.outputs.path }}"]
    inputs: [train.py]
)";

/// A workflow folder, a runs folder and small stand-ins for the programs.
struct Place {
  TempDir folder;
  fs::path program = folder.write("bin/dlflow", "the program");
  fs::path runs = folder.path() / "runs";

  Place() { folder.write("train.py", "print('DLFLOW_PARAM_NOTE')"); }

  Plan plan(const std::string& text = kRunText, const std::vector<std::string>& set = {},
            KnownResults* known = nullptr) const {
    NothingKnown nothing;
    FreshFileHashes hashes;
    return make_plan(parsed(text, folder.path(), set), Profile(), PlanOptions(),
                     known != nullptr ? *known : nothing, hashes);
  }

  Plan created(const std::string& text = kRunText, const std::vector<std::string>& set = {}) const {
    Plan result = plan(text, set);
    create_run_directory(result, runs, kNow, program);
    return result;
  }

  size_t num_entries() const {
    std::error_code none;
    size_t count = 0;
    for (const auto& entry : fs::directory_iterator(runs, none)) {
      count += entry.path().filename() != ".programs";
    }
    return count;
  }
};

std::vector<Json> specs(const Plan& plan) {
  std::vector<Json> result;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    result.push_back(to_json(job_spec(plan, job)));
  }
  return result;
}

}  // namespace

TEST_CASE("a run gets a private folder with all that its jobs need", "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  CHECK(plan.directory == place.runs / plan.run);
  CHECK(plan.run.starts_with("mnist-"));
  CHECK(plan.run.size() == std::string("mnist-7f3a91c0").size());
  struct stat info {};
  REQUIRE(::stat(plan.directory.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(read_file(plan.directory / "workflow.yaml") == kRunText);
  CHECK(read_file(plan.directory / "sources/train.py") == "print('DLFLOW_PARAM_NOTE')");
  CHECK(read_file(frozen_program(plan.directory)) == "the program");
  CHECK(place.num_entries() == 1);
}

TEST_CASE("runs of one version share its programs, and none breaks another", "[run_directory]") {
  const Place place;
  const Plan one = place.created();
  const Plan two = place.created();
  const auto program = [](const Plan& plan) { return frozen_program(plan.directory); };
  CHECK(fs::equivalent(program(one), program(two)));
  CHECK((fs::status(program(one)).permissions() & fs::perms(0222)) == fs::perms::none);
  place.folder.write("bin/dlflow", "the next version");
  const Plan three = place.created();
  CHECK(read_file(program(three)) == "the next version");
  CHECK(read_file(program(one)) == "the program");

  fs::remove_all(one.directory);
  fs::remove_all(three.directory);
  remove_unused_programs(place.runs);
  CHECK(read_file(program(two)) == "the program");
  const auto versions = fs::directory_iterator(place.runs / ".programs");
  CHECK(std::distance(begin(versions), end(versions)) == 1);
}

TEST_CASE("a run has the libraries of its programs in their search path, and shares them",
          "[run_directory]") {
  const Place place;
  place.folder.write("bin/dlflow-train", "the trainer");
  place.folder.write("mlp.yaml", "the model");
  place.folder.write("lib/dlflow/libdnnl.so.2", "the library");
  place.folder.write("lib/dlflow/libdlflow_runtime.so", "for Python");
  const std::string text = R"(
name: w
steps: {a: {uses: train, with: {model: mlp.yaml, data: data, epochs: 1, lr: 0.1}}}
)";
  const auto folder = [](const Plan& plan) { return plan.directory / "lib/dlflow"; };
  const Plan one = place.created(text);
  const Plan two = place.created(text);
  CHECK(read_file(folder(one) / "libdnnl.so.2") == "the library");
  CHECK(fs::equivalent(folder(one) / "libdnnl.so.2", folder(two) / "libdnnl.so.2"));
  CHECK(!fs::exists(folder(one) / "libdlflow_runtime.so"));
  CHECK(!fs::exists(folder(place.created())));  // it needs only dlflow itself
}

TEST_CASE("a torn copy of a program is not given to a run", "[run_directory]") {
  const Place place;
  const Plan one = place.created();
  fs::remove(frozen_program(one.directory));
  for (const auto& version : fs::directory_iterator(place.runs / ".programs")) {
    fs::remove(version.path() / "dlflow");
    std::ofstream(version.path() / "dlflow") << "the pro";
  }
  CHECK(read_file(frozen_program(place.created().directory)) == "the program");
}

TEST_CASE("a program that another user put into the folder of runs is not run",
          "[run_directory][attack]") {
  const Place place;
  const Plan one = place.created();
  const fs::path programs = place.runs / ".programs";
  const fs::path copy = fs::directory_iterator(programs)->path() / "dlflow";
  fs::remove(copy);
  std::ofstream(copy) << "xxx program";  // has the same length
  SECTION("the folder is writable for all") { fs::permissions(programs, fs::perms(0777)); }
  SECTION("the file belongs to another user") {
    if (::geteuid() != 0) return test::skip("only root can be two users");
    REQUIRE(::chown(programs.c_str(), 12345, 12345) == 0);
  }
  SECTION("it is a link") {
    fs::rename(programs, place.runs / "elsewhere");
    fs::create_directory_symlink("elsewhere", programs);
  }
  const Plan two = place.created();
  CHECK(read_file(frozen_program(two.directory)) == "the program");
  CHECK(fs::equivalent(frozen_program(two.directory), frozen_program(place.created().directory)));
}

TEST_CASE("a name that is used elsewhere is not given to a new run", "[run_directory]") {
  const Place place;
  Plan plan = place.plan();
  std::vector<std::string> offered;
  create_run_directory(plan, place.runs, kNow, place.program, [&](const std::string& run) {
    offered.push_back(run);
    return offered.size() < 4;
  });
  REQUIRE(offered.size() == 4);
  CHECK(plan.run == offered.back());
  CHECK(place.num_entries() == 1);
}

TEST_CASE("a run whose name may not survive a power cut is removed", "[run_directory]") {
  const Place place;
  bool renamed = false;
  const auto fate_of = [&](uint64_t call) {
    renamed = renamed || call == SYS_rename;
    const bool syncs_runs = renamed && call == SYS_fsync;
    return syncs_runs ? test::Fate::fails(EIO) : test::Fate::made();
  };
  const auto ended = test::run_watched(fate_of, [&] { place.created(); });
  if (!ended) return test::skip("processes cannot be traced here");
  CHECK(renamed);
  CHECK(*ended != 0);
  CHECK(place.num_entries() == 0);
}

TEST_CASE("a frozen plan is the plan, whatever is edited afterwards", "[run_directory]") {
  const Place place;
  const Plan plan = place.created(kRunText, {"lr=[0.1, 0.7]"});
  place.folder.write("train.py", "edited");
  fs::remove(place.program);
  const Plan loaded = load_run(plan.directory);
  CHECK(specs(loaded) == specs(plan));
  CHECK(loaded.run == plan.run);
  CHECK(loaded.created == kNow);
  CHECK(loaded.workflow.params == plan.workflow.params);
  CHECK(run_name(plan.directory) == plan.run);
}

TEST_CASE("a frozen plan has the whole profile, also one from before SLURM support",
          "[run_directory]") {
  const Place place;
  Plan plan = place.plan();
  plan.profile.batch_options["slurm"] =
      json_of(SlurmOptions{"gpu", "a", "q", "c", "r", true, "gpu:a100:{gpus}", {"--hint=x"}});
  plan.profile.ranks_per_node = 4;
  plan.profile.node = {128, uint64_t{240} << 30, 8};
  plan.profile.limits = {std::chrono::hours(48), 20, 1500, 50, 400, 100};
  plan.profile.scratch = "/local";
  plan.profile.scratch_budget_bytes = 7;
  create_run_directory(plan, place.runs, kNow, place.program);
  CHECK(load_run(plan.directory).profile == plan.profile);

  const fs::path settings = plan.directory / "plan.json";
  Json json = Json::parse(read_file(settings));
  for (const Json& other : {Json(1), Json({1})}) {
    Json damaged = json;
    damaged["profile"]["slurm"]["options"] = other;
    write_file_atomic(settings, damaged.dump());
    CHECK_THROWS_WITH(load_run(plan.directory),
                      Catch::Contains("wrong type of the profile's options"));
  }
  for (const char* key : {"slurm", "ranks_per_node", "node", "limits", "scratch"}) {
    json["profile"].erase(key);
  }
  write_file_atomic(settings, json.dump());
  CHECK(load_run(plan.directory).profile == Profile());
}

TEST_CASE("a step that got the release's image keeps it, and has another fingerprint",
          "[run_directory]") {
  const Place place;
  const auto planned = [&](const Digest& digest) {
    const std::string with = "{checkpoint: x, data: x}";
    Workflow workflow =
        parsed("name: w\nsteps:\n  a: {uses: evaluate, with: " + with + "}\n  b: {run: \"true\"}\n",
               place.folder.path());
    if (!digest.empty()) {
      workflow.images.push_back({kReleaseImage, "oci:/opt/r.tar", digest, {}, Json()});
      workflow.steps[0].image = kReleaseImage;
    }
    NothingKnown nothing;
    FreshFileHashes hashes;
    return make_plan(std::move(workflow), Profile(), PlanOptions(), nothing, hashes);
  };
  const Digest digest = Digest::of_hex(std::string(64, 'a'));
  Plan plan = planned(digest);
  create_run_directory(plan, place.runs, kNow, place.program);  // without dlflow-evaluate
  const Plan loaded = load_run(plan.directory);
  CHECK(specs(loaded) == specs(plan));
  const auto container = job_spec(loaded, 0).container;
  REQUIRE(container);
  CHECK(container->image == kReleaseImage);
  CHECK(container->from == "oci:/opt/r.tar");
  CHECK(container->digest == digest);
  CHECK_FALSE(job_spec(loaded, 1).container);

  const Plan outside = planned({});
  CHECK(fingerprint_base(plan, 0) != fingerprint_base(outside, 0));
  CHECK(fingerprint_base(plan, 1) == fingerprint_base(outside, 1));
  const Plan other = planned(Digest::of_hex(std::string(64, 'b')));
  CHECK(fingerprint_base(plan, 0) != fingerprint_base(other, 0));
}

TEST_CASE("a frozen plan keeps its reused results", "[run_directory]") {
  const Place place;
  test::KnownByFingerprint known;
  known.learn(place.created());
  Plan plan = place.plan(kRunText, {"lr=[0.1, 0.7]"}, &known);
  create_run_directory(plan, place.runs, kNow, place.program);
  const Plan loaded = load_run(plan.directory);
  REQUIRE(loaded.jobs.size() == plan.jobs.size());
  for (size_t job = 0; job < plan.jobs.size(); ++job) {
    CHECK(loaded.jobs[job].action == plan.jobs[job].action);
    CHECK(loaded.jobs[job].cause == plan.jobs[job].cause);
  }
  CHECK(specs(loaded) == specs(plan));
}

TEST_CASE("a model above the workflow's folder is frozen inside the run", "[run_directory]") {
  const Place place;
  place.folder.write("bin/dlflow-train", "the other program");
  place.folder.write("models/mlp.yaml", "the model");
  place.folder.write("deep/flow/x.yaml", "another");
  Plan plan = test::fresh_plan(parsed(R"(
name: w
steps:
  a:
    uses: train
    matrix: {model: [../../models/mlp, x]}
    with: {model: "${{ matrix.model }}.yaml", data: data/mnist, epochs: 1, lr: 0.1}
)",
                                      place.folder.path() / "deep/flow"));
  create_run_directory(plan, place.runs, kNow, place.program);
  const std::string frozen = job_spec(plan, 0).with.at("model");
  CHECK(frozen.starts_with((plan.directory / "sources").string() + "/"));
  CHECK(read_file(frozen) == "the model");
  CHECK(read_file(job_spec(plan, 1).with.at("model").get<std::string>()) == "another");
  CHECK(job_spec(plan, 0).with.at("data") ==
        (place.folder.path() / "deep/flow/data/mnist").string());
  CHECK(read_file(frozen_program(plan.directory, "dlflow-train")) == "the other program");
  CHECK(specs(load_run(plan.directory)) == specs(plan));
}

TEST_CASE("a run whose program is missing leaves nothing behind", "[run_directory]") {
  const Place place;
  Plan plan = place.plan(R"(
name: w
steps:
  data: {uses: stage, with: {sources: [{url: "file:///none/x"}]}}
  check: {uses: evaluate, with: {checkpoint: x, data: "${{ steps.data.outputs.path }}"}}
)");
  CHECK_THROWS_WITH(create_run_directory(plan, place.runs, kNow, place.program),
                    Catch::Contains("bin/dlflow-evaluate") && Catch::Contains("./dev build"));
  CHECK(place.num_entries() == 0);
}

TEST_CASE("the plug-ins for MPI are frozen with the program that opens them", "[run_directory]") {
  const Place place;
  place.folder.write("bin/dlflow-evaluate", "the program");
  place.folder.write("lib/dlflow/libdlflow_mpi_12.so", "the plug-in");  // for one MPI only
  const Plan evaluates = place.created(
      "name: w\nsteps:\n  check: {uses: evaluate, with: {checkpoint: x, data: data}}\n");
  CHECK(read_file(evaluates.directory / "lib/dlflow/libdlflow_mpi_12.so") == "the plug-in");
  CHECK(!fs::exists(evaluates.directory / "lib/dlflow/libdlflow_mpi_40.so"));
  const Plan commands = place.created("name: w\nsteps:\n  check: {run: echo}\n");
  CHECK(!fs::exists(commands.directory / "lib"));
}

TEST_CASE("the plug-in for GPUs is frozen beside the program that opens it", "[run_directory]") {
  const Place place;
  place.folder.write("bin/dlflow-train", "the trainer");
  place.folder.write("mlp.yaml", "the model");
  const auto text = [](const std::string& more) {
    return R"(
name: w
params: {device: cuda}
steps:
  a:
    uses: train
    resources: {gpus_per_rank: 1}
    with: {model: mlp.yaml, data: data, epochs: 1, lr: 0.1, precision: {reduction: fast})" +
           more + "}\n";
  };
  const std::string cuda = text(", device: cuda"),
                    by_parameter = text(R"(, device: "${{ params.device }}")");
  const auto plugin = [](const Plan& plan) {
    return frozen_program(plan.directory, "libdlflow_cuda.so");
  };
  CHECK_THROWS_WITH(place.created(cuda),
                    Catch::Contains("bin/libdlflow_cuda.so, which is not there; build dlflow") &&
                        Catch::Contains("leave 'device: cuda' out"));
  CHECK_THROWS_WITH(place.created(by_parameter), Catch::Contains("bin/libdlflow_cuda.so"));
  CHECK(place.num_entries() == 0);
  CHECK(!fs::exists(plugin(place.created(text("")))));

  place.folder.write("bin/libdlflow_cuda.so", "the plug-in");
  for (const Plan& plan : {place.created(cuda), place.created(by_parameter)}) {
    CHECK(read_file(plugin(plan)) == "the plug-in");
  }
  CHECK(!fs::exists(plugin(place.created(text("")))));
  CHECK(!fs::exists(plugin(place.created(by_parameter, {"device=cpu"}))));
}

TEST_CASE("the plug-in for GPUs is frozen even if only a matrix asks for one", "[run_directory]") {
  const Place place;
  place.folder.write("bin/dlflow-train", "the trainer");
  place.folder.write("mlp.yaml", "the model");
  const char* const text = R"(
name: w
steps:
  a:
    uses: train
    matrix: {device: [cpu, cuda]}
    resources: {gpus_per_rank: 1}
    with: {model: mlp.yaml, data: data, epochs: 1, lr: 0.1, precision: {reduction: fast}, device: "${{ matrix.device }}"}
)";
  CHECK_NOTHROW(place.created(text));  // the step that needs it reports it
  place.folder.write("bin/libdlflow_cuda.so", "the plug-in");
  CHECK(read_file(frozen_program(place.created(text).directory, "libdlflow_cuda.so")) ==
        "the plug-in");
}

TEST_CASE("a file that changes between planning and freezing is noticed", "[run_directory]") {
  const Place place;
  Plan plan = place.plan();
  place.folder.write("train.py", "edited too late");
  CHECK_THROWS_WITH(create_run_directory(plan, place.runs, kNow, place.program),
                    Catch::Contains("train.py changed"));
  CHECK(place.num_entries() == 0);
}

TEST_CASE("a damaged folder, or one that is not a run, is refused with a message",
          "[run_directory]") {
  const Place place;
  CHECK_THROWS_WITH(load_run(place.folder.path()), Catch::Contains("is not the folder of a run"));
  const Plan plan = place.created();
  const fs::path settings = plan.directory / "plan.json";
  Json json = Json::parse(read_file(settings));
  json["version"] = 99;
  write_file_atomic(settings, json.dump());
  CHECK_THROWS_WITH(load_run(plan.directory), Catch::Contains("a newer dlflow"));
  write_file_atomic(settings, "{\"version\": 1");
  CHECK_THROWS_WITH(load_run(plan.directory), Catch::Contains("plan.json: not JSON"));
  write_file_atomic(settings, "{\"version\": 1}");
  CHECK_THROWS_WITH(load_run(plan.directory), Catch::Contains("not a plan.json"));
}

TEST_CASE("a run whose workflow is no longer valid goes on with its own program",
          "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  const auto [line, reason] = GENERATE(table<std::string, std::string>(
      {{"    env: {DLFLOW_X: 1}", "dlflow itself sets the names with DLFLOW_"},
       {"    resources: {memory: 4000}", "4000"}}));
  std::ofstream(plan.directory / "workflow.yaml", std::ios::app) << line << "\n";
  CHECK_THROWS_WITH(
      load_run(plan.directory),
      Catch::StartsWith("this dlflow does not accept the workflow that run " + plan.run +
                        " has in " + (plan.directory / "workflow.yaml").string()) &&
          Catch::Contains(reason) &&
          Catch::EndsWith(plan.directory.string() + "/bin/dlflow run --resume " + plan.run));
}

TEST_CASE("only the attempt after a timeout has more time", "[run_directory]") {
  const Place place;
  Plan plan = place.created(
      "name: w\nsteps: {a: {run: ['true'], resources: {walltime: 10m}, "
      "retry: {attempts: 9, on: [timeout, failure], walltime_factor: 2}}}");
  const auto walltime = [&](int attempt) {
    const fs::path file = make_attempt(plan, 0, attempt) / "job.json";
    return job_spec_from_json(Json::parse(read_file(file))).resources.walltime;
  };
  const auto end = [&](int attempt, JobState state) {
    JobEvent event;
    event.attempt = attempt;
    event.state = state;
    const fs::path record = attempt_directory(job_directory(plan, 0), attempt) / "events.jsonl";
    std::ofstream(record) << to_line(event) << "\n";
  };
  CHECK(walltime(1) == std::chrono::minutes(10));
  end(1, JobState::TimedOut);
  CHECK(walltime(2) == std::chrono::minutes(20));
  end(2, JobState::TimedOut);
  CHECK(walltime(3) == std::chrono::minutes(40));
  end(3, JobState::Failed);
  CHECK(walltime(4) == std::chrono::minutes(10));
}

TEST_CASE("an attempt holds all that a supervisor reads, and may be made twice",
          "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  const fs::path job = job_directory(plan, 1);
  CHECK(attempts(job).empty());
  const fs::path attempt = make_attempt(plan, 1, 1);
  const std::string text = read_file(attempt / "job.json");
  CHECK(job_spec_from_json(Json::parse(text)).job == "train[lr=0.1]");
  CHECK(make_attempt(plan, 1, 1) == attempt);
  make_attempt(plan, 1, 10);
  make_attempt(plan, 1, 2);
  CHECK(attempts(job) == std::vector<int>{1, 2, 10});
}

TEST_CASE("an attempt folder that a kill left empty is completed", "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  make_directories(attempt_directory(job_directory(plan, 0), 1));
  CHECK(fs::exists(make_attempt(plan, 0, 1) / "job.json"));
}

TEST_CASE("a torn job.json is rewritten, and a whole one stays", "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  const fs::path file = make_attempt(plan, 0, 1) / "job.json";
  const std::string whole = read_file(file);
  fs::resize_file(file, whole.size() / 2);
  make_attempt(plan, 0, 1);
  CHECK(read_file(file) == whole);
  write_file_atomic(file, "{}\n");
  make_attempt(plan, 0, 1);
  CHECK(read_file(file) == "{}\n");
}

TEST_CASE("the published outputs are those that the linked attempt recorded", "[run_directory]") {
  const Place place;
  const Plan plan = place.created();
  const fs::path job = job_directory(plan, 0);
  CHECK_FALSE(published_result(job).has_value());
  const fs::path attempt = make_attempt(plan, 0, 2);
  JobEvent event;
  event.state = JobState::Succeeded;
  event.at = kNow;
  event.fingerprint = test::fingerprint_named("abc");
  AppendFile(attempt / "events.jsonl").append(to_line(event));
  fs::create_symlink("attempt-2/pass-3/outputs", job / "outputs");
  const auto published = published_result(job);
  REQUIRE(published.has_value());
  CHECK(published->attempt == 2);
  CHECK(published->fingerprint == event.fingerprint);
}

TEST_CASE("a tail gives each event once, and a torn one when it is whole", "[run_directory]") {
  const TempDir folder;
  const fs::path file = folder.path() / "events.jsonl";
  EventTail tail(file);
  CHECK(tail.read().empty());
  JobEvent event;
  event.at = kNow;
  event.reason = "first";
  const std::string line = to_line(event);
  write_file_atomic(file, line + "\n" + line.substr(0, 10));
  CHECK(tail.read().size() == 1);
  CHECK(tail.read().empty());
  write_file_atomic(file, line + "\n" + line + "\n");
  CHECK(tail.read().size() == 1);
  CHECK(EventTail(file, tail.offset()).read().empty());
}

TEST_CASE("a line that a crash tore is skipped", "[run_directory]") {
  const TempDir folder;
  JobEvent event;
  event.at = kNow;
  const fs::path file = folder.write("events.jsonl", to_line(event) + "\n{\"at\":\"20");
  AppendFile(file).append(to_line(event));
  CHECK(EventTail(file).read().size() == 2);
}

TEST_CASE("a record that is not a file or far too large is refused before it is read",
          "[run_directory][attack]") {
  const TempDir folder;
  const fs::path record = folder.path() / "events.jsonl";
  SECTION("a pipe") { REQUIRE(::mkfifo(record.c_str(), 0600) == 0); }
  SECTION("a device") { fs::create_symlink("/dev/zero", record); }
  SECTION("a file with a hole of terabytes") {
    folder.write("events.jsonl", "");
    fs::resize_file(record, uintmax_t{1} << 42);
  }
  CHECK_THROWS_WITH(EventTail(record).read(), Catch::Contains(record.string() + " is "));
}

TEST_CASE("one engine at a time works on a run, and a second one gets the first one's name",
          "[run_directory]") {
  const TempDir folder;
  {
    const RunLock lock(folder.path());
    CHECK_FALSE(RunLock::try_acquire(folder.path()).has_value());
    CHECK(read_file(folder.path() / "lock").starts_with("process "));
    CHECK_THROWS_WITH(RunLock(folder.path(), std::chrono::milliseconds(0)),
                      Catch::Contains("process " + std::to_string(::getpid())));
  }
  CHECK(RunLock::try_acquire(folder.path()).has_value());
}

TEST_CASE("a foreign file at the place of a run's lock is neither followed nor changed",
          "[run_directory]") {
  const TempDir folder;  // for example another user's run, opened for reading
  const fs::path precious = folder.write("precious", "data\n");
  const fs::path run = folder.path() / "run";
  fs::create_directory(run);
  SECTION("a link") { fs::create_symlink(precious, run / "lock"); }
  SECTION("a hard link to a file") { fs::create_hard_link(precious, run / "lock"); }
  CHECK_THROWS_WITH(RunLock::try_acquire(run), Catch::Contains("not a lock file"));
  CHECK_THROWS_WITH(RunLock(run, std::chrono::milliseconds(0)), Catch::Contains("not a lock file"));
  CHECK(read_file(precious) == "data\n");
}

TEST_CASE("a lock ends with its process", "[run_directory]") {
  const TempDir folder;
  test::in_child([&]() -> int {
    const RunLock lock(folder.path());
    ::_exit(0);  // no destructor runs
  });
  CHECK(RunLock::try_acquire(folder.path()).has_value());
}

TEST_CASE("one engine at a time works on a run even without flock", "[run_directory]") {
  const TempDir folder;
  const auto ended = test::run_without(SYS_flock, ENOSYS, [&] {
    {
      const auto lock = RunLock::try_acquire(folder.path());
      if (!lock) throw Error(Errc::NotFound, "nobody has it");
      if (RunLock::try_acquire(folder.path())) throw Error(Errc::NotFound, "two have it");
    }
    if (!RunLock::try_acquire(folder.path())) throw Error(Errc::NotFound, "it was kept");
  });
  if (!ended) return test::skip("processes cannot be traced here");
  CHECK(*ended == 0);
}

TEST_CASE("a run keeps its automatic ranks and predictions", "[run_directory]") {
  const Place place;
  Plan plan = place.plan("name: w\nsteps: {a: {run: x, resources: {ranks: auto}}}\n");
  plan.options.automatic_ranks = {{"a", 3}};
  plan.options.predictions = {{"a", {{"step_s", 0.5}}}};
  create_run_directory(plan, place.runs, kNow, place.program);
  const Plan loaded = load_run(plan.directory);
  CHECK(loaded.jobs[0].resources->ranks == 3);
  CHECK(loaded.options.predictions == plan.options.predictions);
}

TEST_CASE("a run of an earlier version keeps its dependencies if only some axes are the same",
          "[run_directory]") {
  const Place place;
  const Plan plan = place.created(R"(
name: old
steps:
  prep: {run: ./prep, matrix: {d: [x, y]}}
  train: {run: ./train, matrix: {d: [x, y], lr: [1, 2]}, needs: [prep]}
)");
  CHECK(load_run(plan.directory).graph.parents(2) == std::vector<JobRange>{{0, 1}});
  const fs::path settings = plan.directory / "plan.json";
  Json json = Json::parse(read_file(settings));
  json.erase("common_axes");
  std::ofstream(settings) << json.dump();
  CHECK(load_run(plan.directory).graph.parents(2) == std::vector<JobRange>{{0, 2}});
}

TEST_CASE("an attempt gets copies of small inputs, folder by folder, up to a limit",
          "[run_directory]") {
  const TempDir folder;
  std::map<std::string, std::string> inputs;
  const auto add = [&](const std::string& name, uint64_t bytes) {
    const fs::path file = folder.write(name, "");
    fs::resize_file(file, bytes);
    inputs[name] = file.string();
  };
  add("a/train.py", 100);
  add("a/model.bin", (uint64_t{1} << 20) + 1);
  CHECK(copied_inputs(inputs) == std::set<std::string>{"a/train.py"});
  SECTION("too many files") {
    for (int i = 0; i < 1000; ++i) add("A/" + std::to_string(i), 1);
    CHECK(copied_inputs(inputs) == std::set<std::string>{"a/train.py"});
    fs::remove(inputs.at("A/0"));
    CHECK(copied_inputs(inputs).size() == 1000);
  }
  SECTION("too many bytes") {
    for (int i = 0; i < 16; ++i) add("A/" + std::to_string(i), uint64_t{1} << 20);
    CHECK(copied_inputs(inputs) == std::set<std::string>{"a/train.py"});
    fs::resize_file(inputs.at("A/0"), 1);
    CHECK(copied_inputs(inputs).size() == 17);
  }
}
