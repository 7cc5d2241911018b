#include "engine/model/tools.h"

#include <cstdlib>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;

namespace {

std::string tool_mistake(const std::string& step) {
  return test::mistakes_of("name: w\nsteps:\n  a: {" + step + "}\n");
}

}  // namespace

TEST_CASE("the missing file of a removed module system is skipped", "[tools]") {
  const test::TempDir folder;
  const std::string place = folder.path().string();
  std::ofstream(folder.path() / "modules.sh") << ". /nowhere/init/sh\n";  // as left by Debian
  std::ofstream(folder.path() / "lmod.sh") << "module() { echo \"$*\" > " << place << "/said; }\n";
  std::string line = tool_lines({{"modules", {"gcc/12"}}}, "/home/me").at(0);
  for (size_t at = 0; (at = line.find("/etc/profile.d", at)) != std::string::npos;) {
    line.replace(at, std::string("/etc/profile.d").size(), place);
  }
  std::ofstream(folder.path() / "job.sh") << line << "\n";
  CHECK(std::system(("sh " + place + "/job.sh").c_str()) == 0);
  std::ifstream file(folder.path() / "said");
  std::string said;
  std::getline(file, said);
  CHECK(said == "load gcc/12");
}

TEST_CASE("modules are loaded first, then one environment of packages", "[tools]") {
  const auto lines =
      tool_lines({{"modules", {"gcc/12", "cuda"}}, {"venv", "envs/it's"}}, "/home/me");
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::Contains("module load gcc/12 cuda || {"));
  CHECK_THAT(lines[1], Catch::Contains("/home/me/envs/it'\\''s/bin/activate"));
  CHECK_THAT(tool_lines({{"uv", "."}}, "/home/me").at(0),
             Catch::Contains("/home/me/.venv/bin/activate"));
  CHECK_THAT(tool_lines({{"conda", "torch"}}, "/home/me").at(0),
             Catch::Contains("conda activate torch ||"));
  CHECK_THAT(tool_lines({{"conda", "envs/torch"}}, "/home/me").at(0),
             Catch::Contains("conda activate /home/me/envs/torch ||"));
  CHECK_THAT(tool_lines({{"pixi", "."}}, "/home/me").at(0), Catch::Contains("--frozen"));
  CHECK_THAT(tool_lines({{"spack", "hpc"}}, "/home/me").at(0),
             Catch::Contains("spack env activate --sh hpc)"));
  CHECK(tool_lines(Json::object(), "/home/me").empty());
}

TEST_CASE("the installed packages are known from the file that a tool keeps", "[tools]") {
  const auto lock = [](const Json& tools) { return lock_of_tools(tools, "/w").string(); };
  CHECK(lock({{"uv", "p"}}) == "/w/p/uv.lock");
  CHECK(lock({{"pixi", "."}}) == "/w/pixi.lock");
  CHECK(lock({{"spack", "./hpc"}}) == "/w/hpc/spack.lock");
  CHECK(lock({{"spack", "hpc"}}).empty());
  CHECK(lock({{"conda", "/envs/torch"}}) == "/envs/torch/conda-meta/history");
  CHECK(lock({{"venv", ".venv"}}) == "/w/.venv");
  CHECK(lock({{"venv", ".venv"}, {"lock", "r.lock"}}) == "/w/r.lock");
  CHECK(lock({{"modules", {"x"}}}).empty());
  const auto beside = [](const Json& tools) { return venv_beside_lock(tools, "/w").string(); };
  CHECK(beside({{"uv", "p"}}) == "/w/p/.venv");
  CHECK(beside({{"uv", "p"}, {"lock", "r.lock"}}) == "/w/p/.venv");
  CHECK(beside({{"venv", ".venv"}, {"lock", "r.lock"}}) == "/w/.venv");
  CHECK(beside({{"venv", ".venv"}}).empty());  // the lock itself
  CHECK(beside({{"pixi", "."}}).empty());
  CHECK(beside({{"modules", {"x"}}}).empty());
}

TEST_CASE("an ambiguous environment is refused", "[tools]") {
  CHECK(tool_mistake("run: x, environment: {venv: a, conda: b}") ==
        "w.yaml:3:28: error: environment of step 'a' has both venv and conda; choose one");
  CHECK_THAT(tool_mistake("run: x, environment: {lock: a}"), Catch::Contains("loads nothing"));
  CHECK_THAT(tool_mistake("run: x, environment: {modules: ['a; rm -rf b']}"),
             Catch::Contains("is not the name of a module"));
  CHECK_THAT(
      tool_mistake("uses: stage, environment: {venv: a}, with: {sources: [{url: 'file:///x'}]}"),
      Catch::Contains("environment of step 'a' belongs to run"));
}
