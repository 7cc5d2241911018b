#include "engine/model/profile.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "engine/gridengine/section.h"
#include "engine/model/profile_text.h"
#include "engine/slurm/section.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

/// A folder that serves as the working directory and as the home of the user's configuration during
/// its lifetime.
class Elsewhere {
 public:
  Elsewhere() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  ~Elsewhere() { std::filesystem::current_path(before_); }

  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text).string();
  }

 private:
  test::TempDir folder_;
  test::Variable config_{"XDG_CONFIG_HOME", folder_.path() / "config"};
  test::Variable site_{"DLFLOW_PROFILES",
                       folder_.path().string() + "/lab:" + folder_.path().string() + "/site"};
  test::Variable default_{"DLFLOW_PROFILE", {}};
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("the built-in profile is cluster-profiles/local.yaml", "[profile]") {
  Profile from_file = load_profile(LOCAL_PROFILE_FILE);
  const Elsewhere elsewhere;
  const Profile built_in = load_profile("local");
  CHECK(built_in.file.empty());
  from_file.file.clear();
  CHECK(built_in == from_file);
  CHECK(built_in.runs == "dlflow-runs");
  CHECK(built_in.launcher.program == "mpirun");
}

TEST_CASE("a missing key has its value in local.yaml", "[profile]") {
  const Elsewhere elsewhere;
  Profile profile = load_profile(elsewhere.write("a.yaml", "name: local\n"));
  profile.file.clear();
  CHECK(profile == load_profile("local"));
}

TEST_CASE("every key of a profile is read", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("cluster-profiles/big.yaml", R"(
cores: 8
memory: 16GiB
gpus: 2
launcher: {program: /opt/mpi/bin/mpirun}
setup: [module load openmpi]
environment: {OMP_PROC_BIND: true, N: 3}
paths: {runs: /scratch/runs, scratch: /local}
cache_budget: 50GiB
scratch_budget: 2GiB
)");
  const Profile profile = load_profile("big");
  CHECK(profile.name == "big");
  CHECK(profile.file == "cluster-profiles/big.yaml");
  CHECK(profile.cores == 8);
  CHECK(profile.memory_bytes == uint64_t{16} << 30);
  CHECK(profile.gpus == 2);
  CHECK(profile.launcher == Launcher{"/opt/mpi/bin/mpirun", {}});
  CHECK(profile.setup == std::vector<std::string>{"module load openmpi"});
  CHECK(profile.environment ==
        std::map<std::string, std::string>{{"OMP_PROC_BIND", "true"}, {"N", "3"}});
  CHECK(profile.runs == "/scratch/runs");
  CHECK(profile.cache.empty());
  CHECK(profile.scratch == "/local");
  CHECK(profile.cache_budget_bytes == uint64_t{50} << 30);
  CHECK(profile.scratch_budget_bytes == uint64_t{2} << 30);
}

TEST_CASE("the first folder that has a profile is used: the current, the user's, the site's",
          "[profile]") {
  const Elsewhere elsewhere;
  const auto cores_with = [&elsewhere](const std::string& folder, int cores) {
    elsewhere.write(folder + "/local.yaml", "cores: " + std::to_string(cores));
    return load_profile("local").cores;
  };
  CHECK(cores_with("site", 1) == 1);
  CHECK(cores_with("lab", 2) == 2);
  CHECK(cores_with("config/dlflow/profiles", 3) == 3);
  CHECK(cores_with("cluster-profiles", 4) == 4);
}

TEST_CASE("a copy of the built-in profile is the built-in one", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("site/local.yaml", std::string(local_profile()));
  CHECK(load_profile("local").file.empty());
}

TEST_CASE("DLFLOW_PROFILE names the default profile", "[profile]") {
  const Elsewhere elsewhere;
  CHECK(default_profile() == "local");
  const test::Variable variable("DLFLOW_PROFILE", "alpha");
  CHECK(default_profile() == "alpha");
  CHECK_THROWS_WITH(load_profile("alpha"),
                    Catch::StartsWith("there is no profile 'alpha', which "
                                      "$DLFLOW_PROFILE names; known: local"));
}

TEST_CASE("a profile that extends another holds only the keys that differ", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("site/alpha.yaml", R"(
name: site
scheduler: slurm
slurm: {partition: batch, account: none, options: [--hint=nomultithread]}
launcher: {program: mpirun, arguments: [--oversubscribe]}
environment: {A: 1, B: 2}
paths: {cache: /site/cache}
classes:
  gpu: {slurm: {partition: gpu}, node: {gpus: 4}}
  cpu: {node: {cores: 8}}
)");
  elsewhere.write("config/dlflow/profiles/alpha.yaml", R"(
extends: alpha
slurm: {account: mine, options: [--nice=5]}
launcher: {program: srun}
environment: {B: 3}
classes:
  big: {node: {cores: 99}}
  cpu: {node: {memory: 1GiB}}
)");
  const Profile profile = load_profile("alpha");
  CHECK(profile.name == "alpha");
  CHECK(profile.file.ends_with("config/dlflow/profiles/alpha.yaml"));
  REQUIRE(profile.extended_files.size() == 1);
  CHECK(profile.extended_files[0].ends_with("site/alpha.yaml"));
  CHECK(profile.scheduler == "slurm");
  CHECK(profile.batch_options.at("slurm").at("partition") == "batch");
  CHECK(profile.batch_options.at("slurm").at("account") == "mine");
  CHECK(profile.batch_options.at("slurm").at("options") == std::vector<std::string>{"--nice=5"});
  CHECK(profile.launcher == Launcher{"srun", {}});
  CHECK(profile.environment == std::map<std::string, std::string>{{"A", "1"}, {"B", "3"}});
  CHECK(profile.cache == "/site/cache");
  CHECK(profile.runs == "dlflow-runs");
  REQUIRE(profile.classes.size() == 3);
  CHECK(profile.classes[0].name == "gpu");
  CHECK(profile.classes[0].batch_options.at("slurm").at("account") == "mine");
  CHECK(profile.classes[1].name == "cpu");
  CHECK(profile.classes[1].node == NodeShape{8, uint64_t{1} << 30, 0});
  CHECK(profile.classes[2].name == "big");
}

TEST_CASE("the extended profile is looked for beside the profile and then in the usual folders",
          "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("site/alpha.yaml", "extends: base");
  elsewhere.write("site/base.yaml", "cores: 1");
  elsewhere.write("lab/alpha.yaml", "extends: alpha\ngpus: 2");
  elsewhere.write("cluster-profiles/base.yaml", "cores: 7");
  elsewhere.write("cluster-profiles/alpha.yaml", "extends: alpha\nmemory: 1GiB");
  for (const char* name : {"alpha", "./cluster-profiles/alpha.yaml"}) {
    const Profile profile = load_profile(name);
    CHECK(profile.cores == 1);
    CHECK(profile.gpus == 2);
    CHECK(profile.memory_bytes == uint64_t{1} << 30);
    CHECK(profile.extended_files.size() == 3);
  }
  CHECK(load_profile(elsewhere.write("mine.yaml", "extends: base")).cores == 7);
  CHECK(load_profile(elsewhere.write("here.yaml", "extends: local\ncores: 3")).cores == 3);
}

TEST_CASE("a profile cannot extend a missing profile, or itself", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("cluster-profiles/base.yaml", "cores: 1");
  elsewhere.write("config/dlflow/profiles/alpha.yaml", "extends: base");
  CHECK_THROWS_WITH(
      load_profile("alpha"),
      Catch::Contains("alpha.yaml extends 'base', but there is no such profile in ") &&
          Catch::Contains("/config/dlflow/profiles, ") && !Catch::Contains(" cluster-profiles, ") &&
          Catch::EndsWith(", /etc/dlflow/profiles; name its folder in "
                          "DLFLOW_PROFILES, or correct `extends:`"));
  elsewhere.write("cluster-profiles/a.yaml", "extends: b");
  elsewhere.write("cluster-profiles/b.yaml", "extends: a");
  CHECK_THROWS_WITH(load_profile("a"),
                    "profiles extend each other: cluster-profiles/a.yaml, cluster-profiles/b.yaml, "
                    "cluster-profiles/a.yaml; remove `extends:` from one of them");
  elsewhere.write("cluster-profiles/c.yaml", "extends: [a]");
  CHECK_THROWS_WITH(load_profile("c"), Catch::Contains("cluster-profiles/c.yaml:1:10: error: "
                                                       "extends of the profile must be"));
}

TEST_CASE("an unknown profile is answered with the existing ones", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("config/dlflow/profiles/alpha.yaml", "cores: 1");
  CHECK_THROWS_WITH(
      load_profile("alpa"),
      Catch::StartsWith(
          "there is no profile 'alpa'; did you mean 'alpha'?; known: alpha, local (searched: "
          "cluster-profiles, /") &&
          Catch::Contains("/lab, /") && Catch::Contains("/site, /") &&
          Catch::Contains("/share/dlflow/cluster-profiles, /etc/dlflow/profiles); `dlflow ") &&
          Catch::EndsWith("`dlflow profile detect` on a cluster writes one"));
  CHECK_THROWS_WITH(load_profile("none.yaml"), "cannot open none.yaml: No such file or directory");
}

TEST_CASE("paths of a profile are expanded as in a shell, so it can be shared", "[profile]") {
  const Elsewhere elsewhere;
  const test::Variable user("DLFLOW_TEST_USER", "ann");
  const char* const home_here = std::getenv("HOME");
  REQUIRE(home_here != nullptr);
  const std::string home = home_here;
  const auto runs = [&elsewhere](const std::string& path) {
    return load_profile(elsewhere.write("a.yaml", "paths: {runs: \"" + path + "\"}\n")).runs;
  };
  CHECK(runs("~/runs") == home + "/runs");
  CHECK(runs("/scratch/$DLFLOW_TEST_USER/runs") == "/scratch/ann/runs");
  CHECK(runs("/x/a${DLFLOW_TEST_USER}b") == "/x/aannb");
  CHECK(runs("/x/~/a$/b$-c$") == "/x/~/a$/b$-c$");
  user.set({});
  CHECK_THROWS_WITH(runs("$DLFLOW_TEST_USER/runs"),
                    "paths.runs of the profile: $DLFLOW_TEST_USER/runs names $DLFLOW_TEST_USER, "
                    "which is not set here; set it, or write the path");
}

TEST_CASE("options that dlflow sets for each job are refused as free options, also abbreviated",
          "[profile]") {
  const Elsewhere elsewhere;
  const auto accepts = [&elsewhere](const std::string& option) {
    elsewhere.write("cluster-profiles/a.yaml",
                    "scheduler: slurm\nslurm: {options: ['" + option + "']}\n");
    try {
      load_profile("a");
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (const char* option :
       {"--array=1-3", "--arr=1-3", "--clusters=beta", "--cluster=beta", "--wait", "--wai",
        "--test-only", "--test", "--dep=afterok:1", "--out=x", "--open=truncate", "--no-req",
        "--quiet", "--export-file=x"}) {
    INFO(option);
    CHECK_FALSE(accepts(option));
  }
  for (const char* option :
       {"--wait-all-nodes=1", "--cluster-constraint=x", "--mem=4G", "--mail-user=a", "--exclude=n1",
        "--exclusive=user", "--nice=5", "--tmp=1G"}) {
    INFO(option);
    CHECK(accepts(option));
  }
}

TEST_CASE("all mistakes of a profile are reported", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("cluster-profiles/bad.yaml",
                  "core: 2\nmemory: much\nscheduler: slrm\npaths: {run: x}\n");
  CHECK_THROWS_WITH(load_profile("bad"), R"(the profile cannot be used:
cluster-profiles/bad.yaml:1:1: error: unknown key 'core' in the profile; did you mean 'cores'?
cluster-profiles/bad.yaml:2:9: error: memory of the profile: 'much' is not a size; write 512MiB, 2GiB or 1.5GB
cluster-profiles/bad.yaml:3:12: error: scheduler of the profile: 'slrm' is not one of local, slurm, gridengine; did you mean 'slurm'?
cluster-profiles/bad.yaml:4:9: error: unknown key 'run' in paths of the profile; did you mean 'runs'?)");
}

TEST_CASE("every key about SLURM is read", "[profile]") {
  const Elsewhere elsewhere;
  const Profile profile = load_profile(elsewhere.write("a.yaml", R"(
scheduler: slurm
slurm:
  partition: gpu
  account: project_1
  qos: normal
  constraint: "[rack1|rack2]"
  reservation: course
  exclusive: true
  gres: "gpu:a100:{gpus}"
  options: [--hint=nomultithread, --spread-job]
ranks_per_node: 4
node: {cores: 128, memory: 240GiB, gpus: 8}
limits:
  {walltime: 2-00:00:00, nodes: 20, array_size: 1500, array_throttle: 50, jobs: 400, dependencies: 100,
   submit_interval: 1s}
launcher: {program: srun, arguments: [--mpi=pmix]}
)"));
  CHECK(profile.scheduler == "slurm");
  CHECK(slurm_options(profile) == SlurmOptions{"gpu",
                                               "project_1",
                                               "normal",
                                               "[rack1|rack2]",
                                               "course",
                                               true,
                                               "gpu:a100:{gpus}",
                                               {"--hint=nomultithread", "--spread-job"}});
  CHECK(profile.ranks_per_node == 4);
  CHECK(profile.node == NodeShape{128, uint64_t{240} << 30, 8});
  CHECK(profile.limits ==
        Limits{std::chrono::hours(48), 20, 1500, 50, 400, 100, std::chrono::seconds(1)});
  CHECK(profile.launcher == Launcher{"srun", {"--mpi=pmix"}});
}

TEST_CASE("every key about Grid Engine is read", "[profile]") {
  const Elsewhere elsewhere;
  const Profile profile = load_profile(elsewhere.write("a.yaml", R"(
scheduler: gridengine
gridengine:
  queue: long.q
  project: p1
  parallel_environment: mpi
  memory: h_vmem
  gpus: "gpu={gpus}"
  options: ["-l arch=lx-amd64", -hard]
)"));
  CHECK(gridengine_options(profile) ==
        GridEngineOptions{
            "long.q", "p1", "mpi", "h_vmem", "gpu={gpus}", {"-l arch=lx-amd64", "-hard"}});
  CHECK(partition_of(profile) == "long.q");
  CHECK(partition_key(profile) == "gridengine.queue");
}

TEST_CASE("a class has its own values, and otherwise those of the profile", "[profile]") {
  const Elsewhere elsewhere;
  const Profile profile = load_profile(elsewhere.write("a.yaml", R"(
scheduler: slurm
slurm: {partition: batch, account: p1, gres: "gpu:{gpus}"}
node: {cores: 8, memory: 4GiB}
limits: {walltime: 4h, jobs: 7}
setup: [module load mpi]
classes:
  some: {slurm: {qos: low}}
  gpu:
    slurm: {partition: gpu, gres: "gpu:a100:{gpus}"}
    node: {gpus: 4}
    limits: {walltime: 0, nodes: 3, array_throttle: 9}
    ranks_per_node: 4
    launcher: {program: srun}
    setup: [module load cuda]
  first: {local: true, gridengine: {queue: q}}
)"));
  REQUIRE(profile.classes.size() == 3);
  const NodeClass& some = profile.classes[0];
  const NodeClass& gpu = profile.classes[1];
  CHECK(profile.classes[2].name == "first");
  CHECK(profile.classes[2].local);
  CHECK(profile.classes[2].batch_options.at("gridengine").at("queue") == "q");
  CHECK(some.name == "some");
  CHECK_FALSE(some.local);
  CHECK(some.batch_options.at("slurm").at("partition") == "batch");
  CHECK(some.batch_options.at("slurm").at("qos") == "low");
  CHECK(some.setup == profile.setup);
  CHECK(some.limits == profile.limits);
  CHECK(gpu.batch_options.at("slurm").at("account") == "p1");
  CHECK(gpu.batch_options.at("slurm").at("partition") == "gpu");
  CHECK(gpu.batch_options.at("slurm").at("gres") == "gpu:a100:{gpus}");
  CHECK(gpu.node == NodeShape{8, uint64_t{4} << 30, 4});
  CHECK(gpu.limits.walltime.count() == 0);
  CHECK(gpu.limits.nodes == 3);
  CHECK(gpu.limits.array_throttle == 9);
  CHECK(gpu.limits.jobs == 7);
  CHECK(gpu.ranks_per_node == 4);
  CHECK(gpu.launcher == Launcher{"srun", {}});
  CHECK(gpu.setup == std::vector<std::string>{"module load cuda"});
  const Profile placed = with_class(profile, gpu);
  CHECK(as_class(placed, "gpu", false) == gpu);
  CHECK(placed.runs == profile.runs);
}

TEST_CASE("mistakes in a class are reported with their place", "[profile]") {
  const Elsewhere elsewhere;
  CHECK_THROWS_WITH(
      load_profile(elsewhere.write("a.yaml", "classes:\n  gpu: {partition: gpu}\n")),
      Catch::Contains("a.yaml:2:9: error: unknown key 'partition' in classes.gpu of the profile"));
  CHECK_THROWS_WITH(
      load_profile(elsewhere.write("b.yaml", "classes: {gpu: {limits: {jobs: 4}}}\n")),
      Catch::Contains("unknown key 'jobs' in classes.gpu.limits of the profile"));
}

TEST_CASE("options that dlflow sets for each job are refused as free options of qsub",
          "[profile]") {
  const Elsewhere elsewhere;
  for (const char* option : {"-t 1-3", "-pe mpi 4", "-sync y", "-hold_jid 812", "queue", "-"}) {
    INFO(option);
    const std::string options = std::string("gridengine: {options: ['") + option + "']}\n";
    CHECK_THROWS_WITH(load_profile(elsewhere.write("a.yaml", options)),
                      Catch::Contains("is not a free option of qsub"));
  }
}

TEST_CASE("a free option of sbatch is one line, so that it cannot add another", "[profile]") {
  const Elsewhere elsewhere;
  CHECK_THROWS_WITH(load_profile(elsewhere.write("a.yaml", R"(slurm: {options: ["--hint=x\ny"]})")),
                    Catch::Contains("is not a free option of sbatch"));
}

TEST_CASE("mistakes in the keys about SLURM are reported", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("cluster-profiles/bad.yaml", R"(slurm:
  partitions: batch
  account: "two\tcolumns"
  options: [-p batch, --array=1-3, --time=5]
limits: {walltime: 20 parsecs, jobs: -1}
node: {memory: lots}
scheduler: slurm
)");
  CHECK_THROWS_WITH(load_profile("bad"), R"(the profile cannot be used:
cluster-profiles/bad.yaml:2:3: error: unknown key 'partitions' in slurm of the profile; did you mean 'partition'?
cluster-profiles/bad.yaml:3:12: error: slurm.account of the profile: 'two	columns' is not one line of text; write it without control characters
cluster-profiles/bad.yaml:4:13: error: slurm.options[0] of the profile: '-p batch' is not a free option of sbatch; write --hint=nomultithread, or another in its long form; dlflow itself sets --array, --dependency, --output, --signal; --clusters, --wait and --test-only are not for jobs
cluster-profiles/bad.yaml:4:23: error: slurm.options[1] of the profile: '--array=1-3' is not a free option of sbatch; write --hint=nomultithread, or another in its long form; dlflow itself sets --array, --dependency, --output, --signal; --clusters, --wait and --test-only are not for jobs
cluster-profiles/bad.yaml:5:20: error: limits.walltime of the profile: '20 parsecs' is not a duration; write 90s, 20m, 4h or 1-12:00:00
cluster-profiles/bad.yaml:5:38: error: limits.jobs of the profile must be an integer of at least 0, not -1
cluster-profiles/bad.yaml:6:16: error: node.memory of the profile: 'lots' is not a size; write 512MiB, 2GiB or 1.5GB)");
}

TEST_CASE("every profile that comes with dlflow can be read", "[profile]") {
  size_t num_profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PROFILES)) {
    INFO(entry.path());
    CHECK(load_profile(entry.path().string()).name == entry.path().stem());
    ++num_profiles;
  }
  CHECK(num_profiles >= 5);
  CHECK(load_profile(PROFILES "/alpha.yaml").batch_options.at("slurm").at("partition") == "batch");
}

TEST_CASE("a profile that is printed is the same profile when it is read", "[profile]") {
  const Elsewhere elsewhere;
  for (const auto& entry : std::filesystem::directory_iterator(PROFILES)) {
    Profile profile = load_profile(entry.path().string());
    const std::string file = elsewhere.write("again.yaml", profile_as_yaml(profile));
    profile.file = file;
    CHECK(load_profile(file) == profile);
  }
}

TEST_CASE("a profile that is written and read again is the same", "[profile]") {
  const Elsewhere elsewhere;
  Profile profile = load_profile("local");
  profile.name = "alpha";
  profile.scheduler = "slurm";
  profile.cores = 8;
  profile.memory_bytes = uint64_t{16} << 30;
  profile.gpus = 2;
  profile.batch_options["slurm"]["partition"] = "gpu";
  profile.batch_options["slurm"]["account"] = "12ab";
  profile.batch_options["slurm"]["qos"] = "Yes";
  profile.batch_options["slurm"]["constraint"] = "[rack1|rack2]";
  profile.batch_options["slurm"]["reservation"] = "night";
  profile.batch_options["slurm"]["exclusive"] = true;
  profile.batch_options["slurm"]["gres"] = "gpu:{gpus}";
  profile.batch_options["slurm"]["options"] = {"--hint=nomultithread"};
  profile.batch_options["gridengine"] =
      json_of(GridEngineOptions{"a.q,b.q", "no", "mpi", "h_vmem", "gpu={gpus}", {"-l x=1"}});
  profile.ranks_per_node = 4;
  profile.node = {.cores = 64, .memory_bytes = uint64_t{512} << 20, .gpus = 4};
  profile.limits.walltime = std::chrono::hours(48);
  profile.limits.nodes = 16;
  profile.limits.array_size = 1001;
  profile.limits.array_throttle = 50;
  profile.limits.jobs = 200;
  profile.limits.dependencies = 7;
  profile.limits.submit_interval = std::chrono::seconds(61);
  profile.launcher.program = "/opt/mpi/bin/mpirun";
  profile.launcher.arguments = {"-np", "{ranks}"};
  profile.container.runtime = "apptainer";
  profile.container.command = {"/opt/apptainer"};
  profile.container.arguments = {"--nv"};
  profile.container.binds = {"/data:/data:ro"};
  profile.setup = {"module load \"x\": # y", "", "42"};
  profile.environment = {{"A", "1"}, {"B", "on"}, {"QUOTED", "it's \\ {a: 1}"}};
  profile.inherit = {"MODULEPATH"};
  profile.runs = "/scratch/runs";
  profile.cache = "/scratch/cache";
  profile.scratch = "/local";
  profile.cache_budget_bytes = uint64_t{50} << 30;
  profile.scratch_budget_bytes = (uint64_t{2} << 30) + 1;
  profile.classes = {as_class(profile, "zeta", false), as_class(profile, "on", true)};
  profile.classes[0].batch_options["slurm"]["qos"] = "long";
  profile.classes[0].node.gpus = 3;
  Profile read = load_profile(elsewhere.write("alpha.yaml", profile_as_yaml(profile)));
  read.file.clear();
  CHECK(read == profile);
}

TEST_CASE("text that YAML would read as another type is quoted", "[profile]") {
  for (const char* plain : {"a", "Z_/", "a-1.2+b", "/opt/x", "nowhere"}) {
    CHECK(yaml_text(plain) == plain);
  }
  for (const char* word : {"true", "FALSE", "Null", "yes", "No", "oN", "off", "AZ"}) {
    const std::string text = word;
    CHECK(yaml_text(text) == (text == "AZ" ? text : "\"" + text + "\""));
  }
  for (const char* other : {"", "1a", "-a", ".a", "a b", "a:b", "a\"b"}) {
    CHECK(yaml_text(other) == Json(other).dump());
  }
}

TEST_CASE("sizes and durations are written in the largest unit that they fill", "[profile]") {
  const uint64_t mebibyte = uint64_t{1} << 20;
  CHECK(yaml_size(0) == "0");
  CHECK(yaml_size(1) == "1");
  CHECK(yaml_size(mebibyte) == "1MiB");
  CHECK(yaml_size(mebibyte + 1) == std::to_string(mebibyte + 1));
  CHECK(yaml_size(1024 * mebibyte) == "1GiB");
  CHECK(yaml_size(1025 * mebibyte) == "1025MiB");
  using std::chrono::seconds;
  CHECK(yaml_duration(seconds(0)) == "0");
  CHECK(yaml_duration(seconds(59)) == "59s");
  CHECK(yaml_duration(seconds(61)) == "61s");
  CHECK(yaml_duration(seconds(120)) == "2m");
  CHECK(yaml_duration(seconds(3660)) == "61m");
  CHECK(yaml_duration(seconds(7200)) == "2h");
  CHECK(yaml_duration(seconds(90000)) == "25h");
  CHECK(yaml_duration(seconds(172800)) == "2d");
}
