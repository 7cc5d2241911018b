#include "engine/model/profile.h"

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;

namespace {

/// A folder that is the working directory and the home of the user's configuration while it lives.
class Elsewhere {
 public:
  Elsewhere() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_.path());
    ::setenv("XDG_CONFIG_HOME", (folder_.path() / "config").c_str(), 1);
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  ~Elsewhere() {
    std::filesystem::current_path(before_);
    ::unsetenv("XDG_CONFIG_HOME");
  }

  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text).string();
  }

 private:
  test::TempDir folder_;
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

TEST_CASE("a key that is left out means what local.yaml says", "[profile]") {
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
paths: {runs: /scratch/runs}
cache_budget: 50GiB
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
  CHECK(profile.cache_budget_bytes == uint64_t{50} << 30);
}

TEST_CASE("a profile beside the workflow comes before the user's, and that before the built-in one",
          "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("config/dlflow/profiles/local.yaml", "cores: 1");
  CHECK(load_profile("local").cores == 1);
  elsewhere.write("cluster-profiles/local.yaml", "cores: 2");
  CHECK(load_profile("local").cores == 2);
}

TEST_CASE("an unknown profile is answered with those there are", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("config/dlflow/profiles/alpha.yaml", "cores: 1");
  CHECK_THROWS_WITH(
      load_profile("alpa"),
      Catch::StartsWith(
          "there is no profile 'alpa' among alpha, local, from ./cluster-profiles and /") &&
          Catch::EndsWith("; did you mean 'alpha'?"));
  CHECK_THROWS_WITH(load_profile("none.yaml"), "cannot open none.yaml: No such file or directory");
}

TEST_CASE("all mistakes of a profile are told", "[profile]") {
  const Elsewhere elsewhere;
  elsewhere.write("cluster-profiles/bad.yaml",
                  "core: 2\nmemory: much\nscheduler: slrm\npaths: {run: x}\n");
  CHECK_THROWS_WITH(load_profile("bad"), R"(the profile cannot be used:
cluster-profiles/bad.yaml:1:1: error: unknown key 'core' in the profile; did you mean 'cores'?
cluster-profiles/bad.yaml:2:9: error: memory of the profile: 'much' is not a size; write 512MiB, 2GiB or 1.5GB
cluster-profiles/bad.yaml:3:12: error: scheduler of the profile: 'slrm' is not local
cluster-profiles/bad.yaml:4:9: error: unknown key 'run' in paths of the profile; did you mean 'runs'?)");
}
