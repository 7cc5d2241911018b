#include "engine/batch/probe.h"

#include "base/file.h"
#include "base/process.h"
#include "engine/slurm/script.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// A probe whose job runs here, as /bin/sh would run the script on a node.
class LocalProbe {
 public:
  LocalProbe() {
    profile.file = "alpha.yaml";
    profile.launcher = {"launch", {"--fast"}};
    profile.environment["NODES"] = "n1's n2";
    profile.setup = {"PATH=" + (folder_.path() / "bin").string() + ":$PATH"};
    tool("program", "exit 0");
    prepare_probe(probe(), profile, folder_.path() / "program");
  }

  void tool(const std::string& name, const std::string& lines) const {
    const auto file = folder_.write(name, "#!/bin/sh\n" + lines + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }

  void setup(const std::string& lines) const { folder_.write("runs/probe/setup.sh", lines); }

  int run_job() const {
    Command command;
    command.argv = probe_batch(probe(), profile).command;
    command.environment = {"PATH=/usr/bin:/bin", "TMPDIR=" + folder_.path().string()};
    return run(command).status.code;
  }

  std::vector<Finding> findings() const {
    return read_probe(read_file_if_exists(probe().result()), probe(), profile, job);
  }

  /// The first finding that is not all right.
  Finding problem() const {
    for (const Finding& finding : findings()) {
      if (finding.kind != Finding::Kind::Works) return finding;
    }
    return {};
  }

  Probe probe() const { return {folder_.path() / "runs/probe", "1234", 2}; }
  const std::filesystem::path& folder() const { return folder_.path(); }

  Profile profile;
  BatchJob job;

 private:
  test::TempDir folder_;
};

}  // namespace

TEST_CASE("a node where everything works", "[slurm]") {
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
                    "the cache, " + folder + "/cache, is there and writable\n" +
                    "the node's own disk, " + folder + ", is writable\n" +
                    "dlflow runs there\nthe setup lines work\n"
                    "the launcher, launch --fast, started 2 ranks on n1, n2\n");
}

TEST_CASE("a launcher that is missing or fails is told with what it said", "[slurm]") {
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

TEST_CASE("a dlflow and setup lines that fail on the node are told", "[slurm]") {
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

TEST_CASE("a folder that the node does not see is told by the exit status", "[slurm]") {
  LocalProbe local;
  std::filesystem::remove_all(local.probe().folder);
  CHECK(local.run_job() == kFolderNotShared);
  local.job.id = "812";
  local.job.node = "n1";
  local.job.state = BatchState::Failed;
  local.job.exit = kFolderNotShared;
  const std::string folder = (local.folder() / "runs").string();
  CHECK(local.problem() ==
        Finding{Finding::Kind::Fails, "n1 does not see the folder of runs, " + folder,
                "Set paths.runs in alpha.yaml to a folder that login and compute nodes share."});
  local.job.exit = 0;
  local.job.log_refused = true;
  CHECK_THAT(local.problem().text, Catch::StartsWith("n1 does not see the folder of runs"));
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
                         Catch::EndsWith(" srun --mpi=pmix -n 2 uname -n\n"));
}
