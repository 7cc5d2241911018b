#include "engine/batch/probe.h"

#include "base/file.h"
#include "base/process.h"
#include "engine/slurm/script.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

const Time kReadAt{1010s};

/// A probe whose job runs here, as a batch system would run it on a node.
class LocalProbe {
 public:
  LocalProbe() {
    profile.file = "alpha.yaml";
    profile.scheduler = "slurm";
    profile.launcher = {"launch", {"--fast"}};
    profile.environment["NODES"] = "n1's n2";
    profile.setup = {"PATH=" + (folder_.path() / "bin").string() + ":$PATH"};
    tool("program", "exit 0");
    tool("tools/df", "echo head; echo 'tmpfs 4194304 0 4194304 0% /dev/shm'");
    tool("tools/scontrol", "[ \"$*\" = 'show job 812' ]");
    tool("tools/date", "echo 1000");
    prepare_probe(probe(), profile, folder_.path() / "program");
  }

  void tool(const std::string& name, const std::string& lines) const {
    folder_.write_program(name, "#!/bin/sh\n" + lines + "\n");
  }

  void setup(const std::string& lines) const { folder_.write("runs/probe/setup.sh", lines); }

  int run_job() const {
    Command command;
    command.argv = probe_batch(probe(), profile).command;
    command.environment = {"PATH=" + (folder_.path() / "tools").string() + ":/usr/bin:/bin",
                           "TMPDIR=" + folder_.path().string(), "SLURM_JOB_ID=812"};
    command.environment.insert(command.environment.end(), further.begin(), further.end());
    return run(command).status.code;
  }

  std::vector<Finding> findings() const {
    return read_probe(read_file_if_exists(probe().result()), probe(), profile, job, kReadAt);
  }

  /// Returns the first finding that is a problem.
  Finding problem() const {
    for (const Finding& finding : findings()) {
      if (finding.kind != Finding::Kind::Works) return finding;
    }
    return {};
  }

  Probe probe() const {
    return {folder_.path() / "runs/probe",
            "1234",
            2,
            environments,
            "scontrol show job \"$SLURM_JOB_ID\"",
            kReadAt - 60s,
            release_runtime};
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Makes the folder again, with later changes of the test.
  void prepare() const { prepare_probe(probe(), profile, folder_.path() / "program"); }

  std::vector<ProbedEnvironment> environments;
  std::string release_runtime;
  std::vector<std::string> further;  // "NAME=value" in the job's environment
  Profile profile;
  BatchJob job;

 private:
  test::TempDir folder_;
};

}  // namespace

TEST_CASE("a working node has no problem", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch",
             "[ \"$*\" = '--fast -np 2 uname -n' ] && [ \"$NODES\" = \"n1's n2\" ] || exit 1\n"
             "echo n2; echo n1");
  local.profile.cache = local.folder() / "cache";
  CHECK(local.run_job() == 0);
  std::string text;
  for (const Finding& finding : local.findings()) {
    CHECK(finding.kind == Finding::Kind::Works);
    text += finding.text + "\n";
  }
  const std::string folder = local.folder().string();
  CHECK(text == "the folder of runs, " + folder + "/runs, is shared and writable\n" +
                    "the cache, " + folder + "/cache, exists and is writable\n" +
                    "the node's own disk, " + folder + ", is writable\n" +
                    "the node's /dev/shm has 4.0 GiB\n"
                    "the node's clock agrees with this machine's\nscontrol answers there\n"
                    "dlflow runs there\nthe setup lines work\n"
                    "the launcher, launch --fast, started 2 ranks on n1, n2\n");
}

TEST_CASE("a missing or failing launcher is reported with its output", "[slurm]") {
  LocalProbe local;
  CHECK(local.run_job() == 0);
  CHECK(local.problem().text == "the launcher, launch --fast, is not on the node");
  CHECK(local.problem().advice ==
        "Load its module in setup in alpha.yaml, or give its path as "
        "launcher.program in alpha.yaml.");
  local.tool("bin/launch", "echo n1; echo 'launch: no PMIx' >&2; exit 1");
  CHECK(local.run_job() == 0);
  CHECK(local.problem().text ==
        "the launcher, launch --fast, started 1 of 2 ranks: launch: no PMIx");
}

TEST_CASE("this machine may lack mpirun if no setup line loads it", "[slurm]") {
  LocalProbe local;
  for (const std::string name : {"cat", "grep", "mkdir", "mv", "rm", "sed", "uname"}) {
    local.tool("few/" + name, "exec /bin/" + name + " \"$@\"");
  }
  const std::string folder = local.folder();
  local.further = {"PATH=" + folder + "/tools:" + folder + "/few"};
  local.profile.scheduler = "local";
  local.profile.launcher = Launcher();
  local.profile.setup.clear();
  local.prepare();
  CHECK(local.run_job() == 0);
  CHECK(local.problem() == Finding());
  CHECK_THAT(local.findings().back().text, Catch::StartsWith("there is no mpirun: "));
  local.profile.scheduler = "slurm";
  CHECK(local.problem().text == "the launcher, mpirun, is not on the node");
  local.profile.scheduler = "local";
  local.profile.setup = {"module load openmpi"};
  CHECK(local.problem().text == "the launcher, mpirun, is not on the node");
}

TEST_CASE("programs of steps and their libraries are checked after the setup lines", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n1");
  local.tool("dlflow-train", "");
  local.tool("dlflow-predict", "");
  local.tool("program",
             "[ \"$1\" = load-check ] || exit 0\n"
             "[ $2 = bin/dlflow-predict ] && echo || echo 'libmpi.so.40 is not found; load it'");
  local.prepare();
  CHECK(local.run_job() == 0);
  CHECK(local.problem().text == "dlflow-train cannot be loaded there: libmpi.so.40 is not found");
  CHECK(local.problem().advice == "load it");
  CHECK(std::ranges::any_of(local.findings(), [](const Finding& finding) {
    return finding.text == "dlflow-predict can be loaded there";
  }));
  local.release_runtime = "podman";
  CHECK(local.problem() == Finding());
  CHECK(std::ranges::any_of(local.findings(), [](const Finding& finding) {
    return finding.text ==
           "dlflow-train runs in the release's image with podman, since libmpi.so.40 is not found";
  }));
}

TEST_CASE("ranks of dlflow's programs connect on the node, and the way is reported", "[slurm]") {
  LocalProbe local;
  const auto has = [&](Finding::Kind kind, const std::string& text) {
    return std::ranges::any_of(local.findings(), [&](const Finding& finding) {
      return finding.kind == kind && finding.text == text;
    });
  };
  local.tool("bin/launch", "shift 3; [ $1 = uname ] && printf 'n1\\nn1\\n' || exec \"$@\"");
  local.tool("dlflow-train", "[ $1 = --meet ] && echo '2 ranks by MPICH 4, plug-in x' >&2");
  local.prepare();
  CHECK(local.run_job() == 0);
  CHECK(has(Finding::Kind::Works, "ranks of dlflow's programs meet by MPICH 4, plug-in x"));

  local.tool("dlflow-train", "echo 'error: rank 0: another MPI; take its mpirun' >&2; exit 1");
  local.prepare();
  CHECK(local.run_job() == 0);
  CHECK(has(Finding::Kind::Fails,
            "ranks of dlflow's programs do not meet: rank 0: another MPI; take its mpirun"));

  std::filesystem::remove(local.folder() / "bin/launch");
  local.tool("dlflow-train", "[ \"$*\" = '--ranks 2 --meet' ] && echo '2 ranks by TCP' >&2");
  local.prepare();
  CHECK(local.run_job() == 0);
  CHECK(has(Finding::Kind::Works, "ranks of dlflow's programs meet by TCP"));
}

TEST_CASE("a dlflow or setup lines that fail on the node are reported", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n1");
  local.tool("runs/probe/dlflow", "exit 127");
  CHECK(local.run_job() == 0);
  CHECK(local.problem().text == "this dlflow does not run on the node");
  local.tool("runs/probe/dlflow", "exit 0");
  local.setup("module-that-is-not-there load nothing\n");
  CHECK(local.run_job() == 0);
  CHECK(local.problem().text == "a setup line fails");
}

TEST_CASE("further needs of a job on its node are checked", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n1");
  SECTION("a /dev/shm of Docker's size") {
    local.tool("tools/df", "echo head; echo 'shm 65536 0 65536 0% /dev/shm'");
    local.run_job();
    CHECK_THAT(local.problem().text, Catch::StartsWith("the node's /dev/shm has 64.0 MiB, too"));
  }
  SECTION("a clock that is behind") {
    local.tool("tools/date", "echo 900");
    local.run_job();
    CHECK(local.problem().text == "the node's clock is 0:50 behind this machine's");
  }
  SECTION("a clock that is ahead") {
    local.tool("tools/date", "echo 1130");
    local.run_job();
    CHECK(local.problem().text == "the node's clock is 2:00 ahead of this machine's");
  }
  SECTION("a controller that does not answer") {
    local.tool("tools/scontrol", "echo 'scontrol: error: no way' >&2; exit 1");
    local.run_job();
    CHECK(local.problem().text == "scontrol does not answer on the node: scontrol: error: no way");
  }
  SECTION("a missing container tool") {
    local.profile.container.runtime = "docker";
    local.profile.container.command = {"no-docker"};
    local.prepare();
    local.run_job();
    CHECK(local.problem().text ==
          "there is no program 'no-docker' on the node, which container.runtime docker needs");
  }
}

TEST_CASE("setup lines find the functions that the shell of dlflow exports", "[slurm]") {
  if (batch_shell() != "/bin/bash") return test::skip("there is no bash here");
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n1");
  local.profile.setup.emplace_back("module load cuda");
  local.prepare();
  local.run_job();
  CHECK_THAT(local.problem().text, Catch::Contains("module: command not found"));
  CHECK_THAT(local.problem().advice, Catch::Contains("/etc/profile.d/modules.sh"));
  local.further = {"BASH_FUNC_module%%=() { [ \"$2\" = cuda ]; }"};
  local.run_job();
  CHECK(local.problem().text.empty());
}

TEST_CASE("a folder that the node does not see is reported by the exit status", "[slurm]") {
  LocalProbe local;
  std::filesystem::remove_all(local.probe().folder);
  CHECK(local.run_job() == kFolderNotShared);
  local.job.id = "812";
  local.job.node = "n1";
  local.job.state = BatchState::Failed;
  local.job.exit = kFolderNotShared;
  const std::string folder = (local.folder() / "runs").string();
  CHECK(local.problem() ==
        Finding{Finding::Kind::Fails, "n1 cannot access the folder of runs, " + folder,
                "Set paths.runs in alpha.yaml to a folder that login and compute nodes share."});
  local.job.exit = 0;
  local.job.log_refused = true;
  CHECK_THAT(local.problem().text, Catch::StartsWith("n1 cannot access the folder of runs"));
  local.job.exit = 1;
  local.job.log_refused = false;
  CHECK(local.problem().text == "job 812 left no result on n1: exit 1");
}

TEST_CASE("a probe asks for two ranks and no requeue", "[slurm]") {
  Profile profile;
  profile.launcher = {"srun", {"--mpi=pmix"}};
  profile.ranks_per_node = 1;
  const std::string script =
      sbatch_script(probe_batch({"/runs/probe", "1234", 2}, profile), profile);
  CHECK_THAT(script, Catch::Contains("#SBATCH --nodes=2\n") &&
                         Catch::Contains("#SBATCH --no-requeue\n") &&
                         Catch::EndsWith(" srun --mpi=pmix -n 2\n"));
}

TEST_CASE("a failing setup line is named with its output", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n2");
  local.profile.setup.emplace_back("export A=1");
  local.profile.setup.emplace_back("cat /nowhere/at-all");
  local.profile.setup.emplace_back("false");
  local.prepare();
  local.run_job();
  const Finding problem = local.problem();
  CHECK(problem.text ==
        "the setup line `cat /nowhere/at-all` fails: cat: /nowhere/at-all: No such file or "
        "directory");
}

TEST_CASE("the environments of steps are loaded on the node", "[slurm]") {
  LocalProbe local;
  local.tool("bin/launch", "echo n1; echo n2");
  local.profile.setup.emplace_back(
      "module() { case $2 in here/*) export LOADED=\"$LOADED $2\" ;; *) echo \"unknown module $2\" "
      ">&2; return 1 ;; esac; }");
  const std::string venv = (local.folder() / "venv").string();
  const std::string activate = "PATH=" + venv + "/bin:$PATH\n";
  const auto checked = [&](const Json& tools) {
    local.environments = {{"train, tell", tools, local.folder()}};
    local.prepare();
    local.run_job();
    std::vector<std::string> texts;
    for (const Finding& finding : local.findings()) {
      if (finding.text.find("environment of") != std::string::npos) texts.push_back(finding.text);
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  const std::string of = "the environment of train, tell";
  SECTION("modules") {
    CHECK(checked({{"modules", {"here/1", "here/2"}}}) ==
          Texts{of + " loads: module here/1, module here/2"});
  }
  SECTION("each missing module is named, and the others are loaded") {
    CHECK(checked({{"modules", {"cuda/99", "here/1", "gcc/4"}}}) ==
          Texts{of + ": module cuda/99 does not load: unknown module cuda/99",
                of + ": module gcc/4 does not load: unknown module gcc/4"});
  }
  SECTION("a virtual environment") {
    local.tool("venv/bin/python3", "echo Python 3.12.1");
    local.tool("venv/bin/activate", "VIRTUAL_ENV=" + venv + "\n" + activate);
    CHECK(checked({{"venv", "venv"}}) ==
          Texts{of + " loads: venv " + venv + ", Python of " + venv + " (Python 3.12.1)"});
  }
  SECTION("a missing virtual environment") {
    const std::string none = local.folder().string() + "/none";
    CHECK(checked({{"venv", "none"}}).front() ==
          of + ": venv " + none + " does not load: there is no virtual environment in " + none +
              " on this node; `python3 -m venv " + none + "` makes one");
  }
  SECTION("a moved virtual environment") {
    local.tool("venv/bin/python3", "echo Python 3.12.1");
    local.tool("venv/bin/activate", "VIRTUAL_ENV=/old/place\n" + activate);
    CHECK(checked({{"venv", "venv"}}) ==
          Texts{of + ": Python of " + venv +
                " does not load: it was made as /old/place and moved; create it again"});
  }
  SECTION("a virtual environment whose Python is for another machine") {
    local.tool("venv/bin/activate", "VIRTUAL_ENV=" + venv + "\n" + activate);
    std::filesystem::create_symlink("/nowhere/python3", venv + "/bin/python3");
    const Texts texts = checked({{"venv", "venv"}});
    REQUIRE(texts.size() == 1);
    CHECK(texts.front().starts_with(of + ": Python of " + venv + " does not load: "));
  }
  SECTION("conda is not installed") {
    const Texts texts = checked({{"conda", "torch"}});
    REQUIRE(texts.size() == 1);
    CHECK(texts.front().starts_with(of + ": conda torch does not load: "));
    CHECK(texts.front().find("conda: ") != std::string::npos);
  }
}
