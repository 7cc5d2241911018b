#include "engine/slurm/detect.h"

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace std::chrono_literals;

namespace {

DetectedCluster cluster() {
  DetectedCluster cluster;
  cluster.limits.cluster = "alpha";
  cluster.limits.version = "22.05.8";
  cluster.limits.max_array_size = 1001;
  cluster.limits.accounting = true;
  PartitionInfo batch;
  batch.name = "batch";
  batch.is_default = true;
  batch.nodes = 2;
  batch.node = {2, uint64_t{8000} << 20, 0};
  PartitionInfo gpu = batch;
  gpu.name = "gpu";
  gpu.is_default = false;
  gpu.node.gpus = 4;
  gpu.gpu_types = {"v100"};
  gpu.max_walltime = 72h;
  cluster.limits.partitions = {batch, gpu};
  cluster.accounts = {"project_1"};
  cluster.mpi_types = {"pmix", "none"};
  cluster.found = {{"srun", "/usr/bin/srun"}, {"apptainer", "/usr/bin/apptainer"}};
  return cluster;
}

Profile loaded(const std::string& text) {
  const test::TempDir folder;
  return load_profile(folder.write("detected.yaml", text).string());
}

}  // namespace

TEST_CASE("a detected profile is valid", "[slurm]") {
  const std::string text = detected_profile(cluster(), "");
  const Profile profile = loaded(text);
  CHECK(profile.scheduler == "slurm");
  CHECK(profile.batch_options.at("slurm").at("partition") == "batch");
  CHECK(profile.batch_options.at("slurm").at("account") == "project_1");
  CHECK(profile.node == NodeShape{2, uint64_t{8000} << 20, 0});
  CHECK(profile.limits == Limits{0s, 2, 1001, 0, 0, 0});
  CHECK(profile.launcher == Launcher{"srun", {"--mpi=pmix"}});
  CHECK_THAT(text, Catch::Contains("#   batch (default): 2 nodes of 2 cores, 7.8 GiB\n"
                                   "#   gpu: 2 nodes of 2 cores, 7.8 GiB, 4 GPUs (v100); at most "
                                   "3-00:00:00\n# Container tools here: /usr/bin/apptainer\n"
                                   "container: {runtime: apptainer}\n"));
}

TEST_CASE("the partition can be chosen, and its GPUs are asked for by type", "[slurm]") {
  const Profile profile = loaded(detected_profile(cluster(), "gpu"));
  CHECK(profile.batch_options.at("slurm").at("gres") == "gpu:v100:{gpus}");
  CHECK(profile.ranks_per_node == 4);
  CHECK(profile.limits.walltime == 72h);
  CHECK_THROWS_WITH(detected_profile(cluster(), "gpus"),
                    "alpha has no partition 'gpus' among batch, gpu; did you mean 'gpu'?");
}

TEST_CASE("mpirun starts the ranks if srun lacks PMIx", "[slurm]") {
  DetectedCluster other = cluster();
  other.mpi_types = {"pmi2"};
  other.found["mpirun"] = "/usr/bin/mpirun";
  CHECK(loaded(detected_profile(other, "")).launcher == Launcher{"mpirun", {"--bind-to", "none"}});
}

TEST_CASE("accounting's limit on submitted jobs is in a detected profile", "[slurm]") {
  DetectedCluster limited = cluster();
  limited.submit_limit = 200;
  CHECK(loaded(detected_profile(limited, "")).limits.jobs == 200);
}

TEST_CASE("a cluster without PMIx has this whole profile", "[slurm]") {
  DetectedCluster detected = cluster();
  detected.mpi_types = {"none"};
  detected.found = {{"mpirun", "/opt/mpi/bin/mpirun"}};
  detected.accounts = {"a", "b"};
  detected.submit_limit = 9;
  detected.limits.accounting = false;
  CHECK(detected_profile(detected, "gpu") ==
        R"(# Cluster alpha, SLURM 22.05.8, as it described itself to `dlflow profile detect`.
# What each key means: `dlflow profile show local`, cluster-profiles/local.yaml.
#
# Partitions:
#   batch (default): 2 nodes of 2 cores, 7.8 GiB
#   gpu: 2 nodes of 2 cores, 7.8 GiB, 4 GPUs (v100); at most 3-00:00:00
# No container tool in PATH here; a module may have one, for container.runtime.
scheduler: slurm
slurm:
  partition: gpu
  # One of a, b.
  account: ""
  gres: "gpu:v100:{gpus}"
# Ranks of a step that share a node: one per GPU, or one per socket. 0: SLURM decides.
ranks_per_node: 4
node: {cores: 2, memory: 8000MiB, gpus: 4}
limits:
  walltime: 3d
  nodes: 2
  array_size: 1001
  # How many jobs a user may have at a time, as the association and its QOS allow.
  jobs: 9
# srun has no --mpi=pmix here, which Open MPI needs; mpirun is /opt/mpi/bin/mpirun.
launcher:
  program: mpirun
  arguments: [--bind-to, none]
# Modules that every job needs: [module load openmpi].
setup: []
paths:
  # A folder that login and compute nodes share.
  runs: dlflow-runs
# There is no accounting: only dlflow's own records show how old jobs ended.
)");
  detected.found.clear();
  detected.accounts.clear();
  CHECK_THAT(detected_profile(detected, ""),
             Catch::Contains("load the module that has mpirun in `setup`") &&
                 Catch::Contains("  # Your project, if the site requires one.\n  account: \"\"\n"));
}

TEST_CASE("each partition is a class of a detected profile, the GPUs last", "[slurm]") {
  DetectedCluster several = cluster();
  std::swap(several.limits.partitions[0], several.limits.partitions[1]);
  const Profile profile = loaded(detected_profile(several, ""));
  REQUIRE(profile.classes.size() == 2);
  CHECK(profile.classes[0].name == "batch");
  CHECK(profile.classes[0].node.gpus == 0);
  CHECK(profile.classes[1].name == "gpu");
  CHECK(profile.classes[1].batch_options.at("slurm").at("partition") == "gpu");
  CHECK(profile.classes[1].batch_options.at("slurm").at("account") == "project_1");
  CHECK(profile.classes[1].batch_options.at("slurm").at("gres") == "gpu:v100:{gpus}");
  CHECK(profile.classes[1].node.gpus == 4);
  CHECK(profile.classes[1].limits.walltime == 72h);
  CHECK(loaded(detected_profile(several, "gpu")).classes.empty());
}

TEST_CASE("the smallest of further partitions come first", "[slurm]") {
  DetectedCluster several = cluster();
  std::vector<PartitionInfo>& partitions = several.limits.partitions;
  PartitionInfo other = partitions[0];
  other.is_default = false;
  for (const auto& [name, walltime] :
       {std::pair("long", 100h), std::pair("short", 1h), std::pair("brief", 1h)}) {
    other.name = name;
    other.max_walltime = walltime;
    partitions.push_back(other);
  }
  other.name = "down";
  other.is_up = false;
  partitions.push_back(other);
  const Profile profile = loaded(detected_profile(several, ""));
  std::vector<std::string> names;
  for (const NodeClass& each : profile.classes) names.push_back(each.name);
  CHECK(profile.classes[0].limits.walltime == 0s);  // none
  CHECK(names == std::vector<std::string>{"batch", "short", "brief", "long", "gpu"});
}
