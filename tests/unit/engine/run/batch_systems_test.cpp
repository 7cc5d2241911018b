#include "engine/run/batch_systems.h"

#include <set>

#include "base/error.h"
#include "engine/model/profile.h"
#include "engine/model/profile_shape.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"

using namespace dlflow;

namespace {

/// Sets $PATH to one folder with fake tools.
class Tools {
 public:
  void add(const std::vector<std::string>& names, const std::string& line) const {
    for (const std::string& name : names) {
      folder_.write_program(name, "#!/bin/sh\n" + line + "\n");
    }
  }

 private:
  test::TempDir folder_;
  test::Variable path_{"PATH", folder_.path()};
};

const std::vector<std::string> kSlurm = {"sbatch", "scontrol", "sinfo"};
const std::vector<std::string> kGridEngine = {"qconf", "qstat", "qhost"};

constexpr const char* kSilent = "echo 'cannot find a configuration' >&2; exit 1";

}  // namespace

TEST_CASE("a profile's scheduler names its batch system", "[batch-systems]") {
  CHECK(make_batch_system("slurm")->name() == "SLURM");
  CHECK(make_batch_system("gridengine")->name() == "Grid Engine");
  CHECK_FALSE(is_batch_system("local"));
  CHECK_THROWS_AS(make_batch_system("local"), Error);
}

TEST_CASE("a profile may have an existing batch system, or none", "[batch-systems]") {
  std::set<std::string> known = {"local"};
  for (const std::string& name : batch_system_names()) known.insert(name);
  const std::vector<std::string> choices = find_field(profile_shape(), "scheduler")->shape.choices;
  CHECK(std::set(choices.begin(), choices.end()) == known);
}

TEST_CASE("the partition of every batch system can be set", "[batch-systems]") {
  const test::TempDir folder;
  for (const std::string& name : batch_system_names()) {
    Profile profile;
    profile.scheduler = name;
    const std::string section = name + ".", path = partition_key(profile);
    REQUIRE(path.starts_with(section));
    const std::string text =
        "scheduler: " + name + "\n" + name + ": {" + path.substr(section.size()) + ": here}\n";
    INFO(text);
    CHECK(partition_of(load_profile(folder.write(name + ".yaml", text).string())) == "here");
  }
  CHECK(partition_of(Profile()).empty());
}

TEST_CASE("the batch system that answers is detected if the tools of two exist",
          "[batch-systems]") {
  const Tools tools;
  CHECK_THROWS_WITH(detect_batch_system(), Catch::Contains("no batch system's tools are in $PATH"));
  tools.add(kGridEngine, "exit 0");
  CHECK(detect_batch_system()->name() == "Grid Engine");
  tools.add(kSlurm, kSilent);
  CHECK(detect_batch_system()->name() == "Grid Engine");
  tools.add(kSlurm, "exit 0");
  CHECK(detect_batch_system()->name() == "SLURM");
  tools.add(kSlurm, kSilent);
  tools.add(kGridEngine, kSilent);
  CHECK(detect_batch_system()->name() == "SLURM");  // which can then report why it does not answer
}
