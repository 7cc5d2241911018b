#include "engine/supervisor/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/supervisor/container.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

/// The command that a launcher starts, before the step's own.
const std::vector<std::string> kRankExec = {"/runs/demo-1/bin/dlflow", "rank-exec",
                                            "/runs/demo-1/steps/a/attempt-1/ranks-1.json"};

/// A job of two ranks.
struct TwoRanks {
  JobSpec spec;
  ResolvedJob job;
  AttemptFiles files;

  TwoRanks() {
    spec.run_directory = "/runs/demo-1";
    spec.job_directory = "/runs/demo-1/steps/a";
    spec.cache = "/cache";
    spec.resources.ranks = 2;
    spec.resources.cpus_per_rank = 100'000;
    files.attempt = spec.job_directory / "attempt-1";
    job.run_command = {"./a"};
  }

  std::vector<std::string> words(const std::vector<std::string>& launcher) {
    spec.launcher = launcher;
    std::vector<std::string> all = make_command(spec, job, files, std::nullopt, {}).argv;
    // Open MPI demands this option from root.
    std::erase(all, "--allow-run-as-root");
    const auto words = std::search(all.begin(), all.end(), kRankExec.begin(), kRankExec.end());
    if (words != all.end()) all.erase(words, words + ptrdiff_t(kRankExec.size()));
    return all;
  }
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("mpirun gets the options that this machine needs, unless the profile sets them",
          "[launch]") {
  TwoRanks two;
  CHECK(two.words({"mpirun", "-np", "2"}) ==
        Words{"mpirun", "--bind-to", "none", "--oversubscribe", "-np", "2", "./a"});
  CHECK(two.words({"/opt/mpirun", "--bind-to", "core", "-np", "2"}) ==
        Words{"/opt/mpirun", "--oversubscribe", "--bind-to", "core", "-np", "2", "./a"});
  CHECK(two.words({"mpirun", "--oversubscribe", "--bind-to", "none"}) ==
        Words{"mpirun", "--oversubscribe", "--bind-to", "none", "./a"});
  CHECK(two.words({"srun", "-n", "2"}) == Words{"srun", "-n", "2", "./a"});
  CHECK(two.words({}) == Words{"./a"});
  two.spec.resources.ranks = 1;
  CHECK(two.words({"mpirun", "-np", "1"}) == Words{"./a"});
  two.spec.resources = {.ranks = 2, .cpus_per_rank = 0};  // fits any machine
  CHECK(two.words({"mpirun"}) == Words{"mpirun", "--bind-to", "none", "./a"});
}

TEST_CASE("each rank of a command starts with its variables", "[launch]") {
  TwoRanks two;
  const auto argv = [&](const std::vector<std::string>& launcher) {
    two.spec.launcher = launcher;
    return make_command(two.spec, two.job, two.files, std::nullopt, {}).argv;
  };
  CHECK(argv({"srun", "-n", "2"}) ==
        Words{"srun", "-n", "2", kRankExec[0], kRankExec[1], kRankExec[2], "./a"});
  CHECK(argv({}) == Words{"./a"});
  two.spec.resources.ranks = 1;
  CHECK(argv({"srun", "-n", "1"}) == Words{"./a"});
  two.spec.resources.ranks = 2;
  two.spec.uses = "train";  // finds its rank by itself
  CHECK(argv({"srun", "-n", "2"}) == Words{"srun", "-n", "2", "/runs/demo-1/bin/dlflow-train",
                                           "/runs/demo-1/steps/a/attempt-1/with.json"});
}

TEST_CASE("dlflow's own programs start their ranks on this machine without mpirun", "[launch]") {
  TwoRanks two;
  two.spec.uses = "train";
  const Words alone = {"/runs/demo-1/bin/dlflow-train", "/runs/demo-1/steps/a/attempt-1/with.json"};
  const Words launched = two.words({"mpirun", "-np", "2"});
  CHECK(launched.front() == "mpirun");
  CHECK(Words(launched.end() - 2, launched.end()) == alone);
  const test::Variable path("PATH", "/nowhere");
  CHECK(two.words({"mpirun", "-np", "2"}) == Words{alone[0], "--ranks", "2", alone[1]});
  CHECK(two.words({"srun", "-n", "2"}).front() == "srun");
  two.spec.resources.cpus_per_rank = 1;
  const test::TempDir folder;
  const test::Variable nodes("PE_HOSTFILE", folder.write("hosts", "a 1 q -\nb 1 q -\n").string());
  CHECK(two.words({"mpirun", "-np", "2"}).front() == "mpirun");
}

TEST_CASE("the release's image runs its own programs, and these start their ranks themselves",
          "[launch]") {
  TwoRanks two;
  two.spec.uses = "train";
  two.spec.launcher = {"mpirun", "-np", "2"};
  two.spec.container = ContainerSpec{kReleaseImage, "oci:/r.tar", Digest(), Json(), {}};
  two.spec.container->settings.runtime = "podman";
  const std::string with = "/runs/demo-1/steps/a/attempt-1/with.json";
  const auto inside = [&] { return container_job(two.spec, two.job, two.files).commands.front(); };
  CHECK(inside() == Words{"/usr/bin/dlflow-train", with});  // each in a container of its own
  const test::Variable path("PATH", "/nowhere");
  CHECK(inside() == Words{"/usr/bin/dlflow-train", "--ranks", "2", with});
  CHECK(two.words(two.spec.launcher) == Words{"/runs/demo-1/bin/dlflow", "container-run",
                                              "/runs/demo-1/steps/a/attempt-1/container.json"});
  two.spec.container->image = "box";
  CHECK(inside().front() == "/runs/demo-1/bin/dlflow-train");
  two.spec.container->settings.runtime = "pyxis";  // srun starts them
  CHECK(inside() == Words{"/runs/demo-1/bin/dlflow-train", with});
}

TEST_CASE("a command of one rank gets its variables without a launcher, unless the step sets them",
          "[launch]") {
  TwoRanks one;
  one.spec.resources = {};
  const auto value = [&](const std::string& name) {
    one.job.ranks = plan_ranks(one.spec, one.job.environment);
    const Command command = make_command(one.spec, one.job, one.files, std::nullopt, {});
    for (const std::string& entry : command.environment) {
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    }
    return std::string("none");
  };
  CHECK(value("RANK") == "0");
  CHECK(value("WORLD_SIZE") == "1");
  CHECK(std::stoi(value("MASTER_PORT")) > 0);
  one.spec.resources.alone = true;
  CHECK(value("RANK") == "none");
  CHECK(value("WORLD_SIZE") == "none");
  CHECK(value("MASTER_ADDR") == "none");
  CHECK(value("DLFLOW_RANK") == "0");
  one.spec.launch = Launch::Node;  // torchrun gets its number of ranks
  CHECK(value("PET_NPROC_PER_NODE") == "1");
  one.spec.launch = Launch::Ranks;
  one.spec.resources.alone = false;
  one.job.environment = {{"MASTER_PORT", 29500}, {"RANK", "x"}};
  CHECK(value("MASTER_PORT") == "29500");
  CHECK(value("RANK") == "x");
  one.spec.uses = "train";
  CHECK(value("WORLD_SIZE") == "none");
}

TEST_CASE("one program per node has the cores of all ranks there", "[launch]") {
  TwoRanks job;
  job.spec.launch = Launch::Node;
  job.spec.resources = {.ranks = 4, .cpus_per_rank = 2};
  job.job.ranks.ranks = 4;
  job.job.ranks.one_per_node = true;
  job.job.ranks.nodes = {{"n1", 2}, {"n2", 2}};
  CHECK(job.words({"srun", "--mpi=pmix"}) ==
        Words{"srun", "--mpi=pmix", "-N", "2", "-n", "2", "--ntasks-per-node=1", "-c", "4", "./a"});
  ::setenv("SLURM_GPUS_PER_TASK", "1", 1);  // a variable of the job, whose tasks would be the ranks
  job.spec.resources.gpus_per_rank = 1;
  CHECK(job.words({"srun"}).back() == "./a");
  CHECK(job.words({"srun"}).end()[-2] == "--gpus-per-task=2");
  ::unsetenv("SLURM_GPUS_PER_TASK");
  job.spec.resources.cpus_per_rank = 0;  // fits any machine
  CHECK(job.words({"mpirun", "--bind-to", "none"}) ==
        Words{"mpirun", "--bind-to", "none", "-np", "2", "--map-by", "ppr:1:node", "./a"});
  CHECK(job.words({"mpiexec.hydra"}) == Words{"mpiexec.hydra", "-np", "2", "-ppn", "1", "./a"});
  job.spec.resources = {.ranks = 3, .cpus_per_rank = 2};
  job.job.ranks.nodes = {{"n1", 2}, {"n2", 1}};  // srun gives each rank the cores of its node
  CHECK(job.words({"srun"}) ==
        Words{"srun", "-N", "2", "-n", "2", "--ntasks-per-node=1", "--cpu-bind=none", "./a"});
  job.job.ranks.nodes = {{"n1", 3}};
  CHECK(job.words({"srun"}) == Words{"./a"});
}

TEST_CASE("mpirun gets the option for root once, and only as root", "[launch]") {
  TwoRanks two;
  const auto times = [&](const std::vector<std::string>& launcher) {
    two.spec.launcher = launcher;
    const auto argv = make_command(two.spec, two.job, two.files, std::nullopt, {}).argv;
    return std::count(argv.begin(), argv.end(), "--allow-run-as-root");
  };
  CHECK(times({"mpirun"}) == (::geteuid() == 0 ? 1 : 0));
  CHECK(times({"mpirun", "--allow-run-as-root"}) == 1);
  CHECK(times({"srun"}) == 0);
}

TEST_CASE("a step's checkpoints and folders are in its environment, if it has them", "[launch]") {
  TwoRanks two;
  const auto value = [&](const std::string& name) {
    const auto values = declared_environment(two.spec, two.job, two.files);
    const auto found = values.find(name);
    return found == values.end() ? "none" : found->second;
  };
  for (const char* name : {"DLFLOW_CACHE_BUDGET", "DLFLOW_SCRATCH", "DLFLOW_SCRATCH_BUDGET",
                           "DLFLOW_CHECKPOINT_EVERY", "DLFLOW_SEED", "DLFLOW_RUN", "DLFLOW_WITH"}) {
    CHECK(value(name) == "none");
  }
  two.spec.run = "demo-1";
  two.spec.job = "a[repeat=3]";
  two.spec.step = "a";
  two.spec.sees_run = true;
  two.spec.cache_budget_bytes = 1;
  two.spec.scratch = "/local";
  two.spec.scratch_budget_bytes = 2;
  CheckpointPolicy& policy = two.spec.checkpoint.emplace();
  policy.unit = CheckpointPolicy::Unit::Steps;
  policy.every = 200;
  policy.keep = 4;
  two.spec.element = {{"repeat", 3}};
  two.spec.with = {{"x", 1}};
  two.files.number = 5;
  two.files.pass = 6;
  const std::map<std::string, std::string> expected = {
      {"DLFLOW_STEP", "a"},
      {"DLFLOW_JOB", "a[repeat=3]"},
      {"DLFLOW_RUN", "demo-1"},
      {"DLFLOW_ATTEMPT", "5"},
      {"DLFLOW_PASS", "6"},
      {"DLFLOW_RANKS", "2"},
      {"DLFLOW_CPUS_PER_RANK", "100000"},
      {"OMP_NUM_THREADS", "100000"},
      {"DLFLOW_WITH", "/runs/demo-1/steps/a/attempt-1/with.json"},
      {"DLFLOW_OUTPUTS", "/runs/demo-1/steps/a/attempt-1/pass-6/outputs"},
      {"DLFLOW_CHECKPOINTS", "/runs/demo-1/steps/a/checkpoints"},
      {"DLFLOW_METRICS", "/runs/demo-1/steps/a/attempt-1/metrics.jsonl"},
      {"DLFLOW_SUMMARY", "/runs/demo-1/steps/a/attempt-1/pass-6/metrics.json"},
      {"DLFLOW_CACHE", "/cache"},
      {"DLFLOW_CACHE_BUDGET", "1"},
      {"DLFLOW_SCRATCH", "/local"},
      {"DLFLOW_SCRATCH_BUDGET", "2"},
      {"DLFLOW_CHECKPOINT_EVERY", "200 steps"},
      {"DLFLOW_CHECKPOINT_KEEP", "4"},
      {"DLFLOW_MATRIX_REPEAT", "3"},
      {"DLFLOW_SEED", "3"}};
  CHECK(declared_environment(two.spec, two.job, two.files) == expected);
  two.spec.with = Json::object();
  CHECK(value("DLFLOW_WITH") == "none");
  two.spec.uses = "evaluate";  // a program that reads the file, even without options
  CHECK(value("DLFLOW_WITH") == expected.at("DLFLOW_WITH"));
  two.spec.checkpoint->unit = CheckpointPolicy::Unit::Epochs;
  CHECK(value("DLFLOW_CHECKPOINT_EVERY") == "200 epochs");
  two.spec.checkpoint->unit = CheckpointPolicy::Unit::Seconds;
  CHECK(value("DLFLOW_CHECKPOINT_EVERY") == "200 seconds");
}

TEST_CASE("variables of a shell do not change the results of dlflow's own programs", "[launch]") {
  const std::map<std::string, std::string> here = {
      {"NCCL_ALGO", "Ring"}, {"ONEDNN_MAX_CPU_ISA", "SSE41"}, {"NCCL_SOCKET_IFNAME", "ib0"}};
  JobSpec spec;
  CHECK(passed_on(here, spec) == here);
  spec.uses = "train";
  CHECK(passed_on(here, spec) == std::map<std::string, std::string>{{"NCCL_SOCKET_IFNAME", "ib0"}});
}

TEST_CASE("a job in a container has all settings of its step and its profile", "[launch]") {
  const test::TempDir folder;
  const std::string read = folder.write("read/me", "x");
  TwoRanks two;
  two.spec.container =
      ContainerSpec{"torch",
                    "oci:/images/torch",
                    Digest::of_hex(std::string(64, '1')),
                    {{"run", "make"}},
                    {"podman", {"podman-remote"}, "P2", {"--x"}, {"/site:/data:ro"}}};
  two.spec.launcher = {"mpirun"};
  two.spec.cache_budget_bytes = 7;
  two.spec.resources.gpus_per_rank = 1;
  two.spec.data = {"/data/set"};
  two.spec.secrets = {"TOKEN"};
  two.spec.parents = {{"here", Json::object(), "/runs/demo-1/steps/here"},
                      {"other", Json::object(), "/elsewhere/other-1/steps/x"}};
  two.job.with = {{"files", {read, "file://" + read, "/none", "words"}}};
  const ContainerJob job = container_job(two.spec, two.job, two.files);
  CHECK(job.image == "torch");
  CHECK(job.from == "oci:/images/torch");
  CHECK(job.digest == two.spec.container->digest);
  CHECK(job.build == Json{{"run", "make"}});
  CHECK(job.mpirun == two.spec.launcher.front());
  TwoRanks without_launcher = two;
  without_launcher.spec.launcher.clear();
  CHECK(container_job(without_launcher.spec, two.job, two.files).mpirun.empty());
  CHECK(job.cache == "/cache");
  CHECK(job.cache_budget_bytes == 7);
  CHECK(job.runtime == "podman");
  CHECK(job.command == Words{"podman-remote"});
  CHECK(job.mode == "P2");
  CHECK(job.arguments == Words{"--x"});
  CHECK(job.launcher.empty());
  CHECK(job.ranks == 1);
  CHECK(job.directory == two.files.work());
  CHECK(job.gpus);
  CHECK(job.commands == std::vector<Words>{{"./a"}});
  CHECK(job.environment.at("DLFLOW_CACHE") == "/cache");
  CHECK(job.secrets == std::set<std::string>{"TOKEN"});
  CHECK(job.secrets_file == secrets_file(two.spec.run_directory));
  std::vector<std::string> binds;
  for (const Bind& bind : job.binds) {
    binds.push_back(bind.source.string() + ":" + bind.target.string() +
                    (bind.read_only ? ":ro" : ""));
  }
  CHECK(binds == Words{"/runs:/runs", "/cache:/cache",
                       "/elsewhere/other-1/steps/x:/elsewhere/other-1/steps/x:ro",
                       "/data/set:/data/set:ro", read + ":" + read + ":ro",
                       read + ":" + read + ":ro", "/site:/data:ro"});
  two.spec.resources.gpus_per_rank = 0;
  CHECK_FALSE(container_job(two.spec, two.job, two.files).gpus);
  two.job.run_command = "echo a script";
  CHECK(container_job(two.spec, two.job, two.files).commands.size() == 2);  // for bash, for sh
}
