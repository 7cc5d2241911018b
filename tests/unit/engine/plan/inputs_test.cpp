#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "engine/plan/installed.h"
#include "engine/plan/layout.h"
#include "engine/plan/programs.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/support/variable.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using test::one_step;
using test::parsed;
using test::plan_of;
using test::step_base;
using test::TempDir;

TEST_CASE("inputs are frozen copies whose content is in the fingerprint", "[plan]") {
  const TempDir folder;
  folder.write("a.py", "print(1)");
  folder.write("lib/b.py", "x = 1");
  folder.write("lib/c/d.py", "DLFLOW_PARAM_SEED");
  const char* text = R"(
name: w
params: {seed: 1, other: 2}
steps:
  a: {run: [python3, a.py], inputs: [a.py, lib]}
)";
  const Plan plan = plan_of(parsed(text, folder.path()));
  const JobSpec spec = job_spec(plan, 0);
  CHECK(spec.inputs ==
        std::map<std::string, std::string>{{"a.py", "/runs/w-0000/sources/a.py"},
                                           {"lib/b.py", "/runs/w-0000/sources/lib/b.py"},
                                           {"lib/c/d.py", "/runs/w-0000/sources/lib/c/d.py"}});
  CHECK(spec.params == Json{{"seed", 1}});
  CHECK(spec.fingerprint_base.find(folder.path().string()) == std::string::npos);

  folder.write("lib/b.py", "x = 2");
  CHECK(fingerprint_base(plan_of(parsed(text, folder.path())), 0) != spec.fingerprint_base);
}

TEST_CASE("external data is identified by its content, or ignored", "[plan]") {
  const TempDir folder;
  const std::string script = folder.write("elsewhere/a.py", "print(1)").string();
  const auto base = [&](const std::string& hash) {
    return step_base("run: [python3, a.py], inputs: [{path: " + script + ", hash: " + hash + "}]");
  };
  const std::string content = base("content");
  const std::string none = base("none");
  CHECK(content != none);
  folder.write("elsewhere/a.py", "print(2)");
  CHECK(base("content") != content);
  CHECK(base("none") == none);
  folder.write("elsewhere/a.py", "print(1)");
  CHECK(base("content") == content);  // another inode and time, the same content
  std::filesystem::remove(script);
  CHECK_THROWS_WITH(base("content"), Catch::Contains("there is no such file"));
  REQUIRE(::mkfifo(script.c_str(), 0600) == 0);
  const std::string hash = GENERATE(as<std::string>(), "content", "none");
  CHECK_THROWS_WITH(base(hash), Catch::Contains("a.py is a pipe, a socket or a device"));
}

TEST_CASE("a pipe in a folder that is read in place is refused by name", "[plan]") {
  const TempDir folder;
  const auto data = folder.write("set/x", "1").parent_path();
  const auto base = [&] { return step_base("run: cat, inputs: [{path: " + data.string() + "}]"); };
  base();
  REQUIRE(::mkfifo((data / "p").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(base(), Catch::Contains("set/p is a pipe, a socket or a device"));
}

TEST_CASE("a program that setup lines may choose has no fingerprint, except one with a path",
          "[plan]") {
  const TempDir folder;
  const std::string tool = folder.write_program("bin/tool", "1").string();
  Profile profile;
  profile.environment = {{"PATH", folder.path().string() + "/bin"}};
  profile.setup = {"module load tool"};
  struct Everything : KnownResults {
    std::optional<KnownResult> find(const Fingerprint&, std::span<const std::string>) override {
      return KnownResult{};
    }
  } everything;
  FreshFileHashes hashes;
  const auto plan = [&](const std::string& program) {
    return make_plan(one_step("run: [" + program + "], reuse: {program: true}"), profile, {},
                     everything, hashes);
  };
  const Plan unknown = plan("tool");
  CHECK(unknown.jobs[0].action == Action::Run);
  CHECK(job_spec(unknown, 0).sources.programs.at("tool").empty());
  CHECK(plan(tool).jobs[0].action == Action::Reuse);
  profile.setup.clear();
  CHECK(plan("tool").jobs[0].action == Action::Reuse);
}

TEST_CASE("variables and the program that `reuse:` names are in the fingerprint", "[plan]") {
  const TempDir folder;
  const auto tool = [&](const std::string& place, const std::string& content) {
    return folder.write_program(place + "/tool", content).parent_path().string();
  };
  const auto base = [&](const std::map<std::string, std::string>& environment) {
    Profile profile;
    profile.environment = environment;
    return Json::parse(step_base("run: [tool, x], reuse: {environment: [MODE], program: true}",
                                 "/tmp", profile))
        .at("reuse");
  };
  const std::string one = tool("one", "1");
  const std::string two = tool("two", "2");
  CHECK(base({{"PATH", one}, {"MODE", "a"}}) != base({{"PATH", one}, {"MODE", "b"}}));
  CHECK(base({{"PATH", one}}) != base({{"PATH", two + ":" + one}}));
  const Json before = base({{"PATH", one}});
  tool("one", "changed");
  CHECK(base({{"PATH", one}}) != before);
  CHECK(base({{"PATH", "/nowhere"}}).at("program") == "not found");
}

TEST_CASE("a file without the permission to run is not the program of `reuse:`", "[plan]") {
  const TempDir folder;
  const auto first = folder.write("one/tool", "no program");
  const auto second = folder.write_program("two/tool", "1");
  const std::string path = first.parent_path().string() + ":" + second.parent_path().string();
  FreshFileHashes hashes;
  CHECK(program_identity("tool", path, hashes) == second.string() + " " + sha256_hex("1"));
  CHECK(program_identity(first, path, hashes) == "not found");
}

TEST_CASE("a job gets the findings of `reuse:`, and looks for its program in its working directory",
          "[plan]") {
  const TempDir folder;
  const auto tool = folder.write_program("own/tool", "1");
  Profile profile;
  profile.environment = {{"SITE", "a"}};
  const auto sources = [&](const std::string& keys) {
    return job_spec(test::fresh_plan(one_step("run: [tool, x], " + keys), profile), 0).sources;
  };
  using Found = std::map<std::string, std::string>;
  CHECK(sources("reuse: {environment: [AUDIT_MODE, SITE]}").variables == Found{{"AUDIT_MODE", ""}});
  CHECK(sources("reuse: {program: true}, env: {PATH: " + tool.parent_path().string() + "}")
            .programs == Found{{"tool", tool.string() + " " + sha256_hex("1")}});
  CHECK(sources("outputs: {o: o}").programs.empty());
}

TEST_CASE("the program that `reuse:` names may depend on parameters and the element", "[plan]") {
  const TempDir folder;
  const std::string one = folder.write_program("one/tool", "1").string();
  const std::string two = folder.write_program("two/tool", "2").string();
  const auto programs = [&](const std::string& keys) {
    const Workflow workflow = parsed("name: w\nparams: {folder: " + folder.path().string() +
                                     "/one}\nsteps:\n  l: {run: echo, outputs: {o: o}}\n  a: {" +
                                     keys + ", reuse: {program: true}}\n");
    const Plan plan = test::fresh_plan(workflow, Profile{});
    std::vector<std::string> found;
    for (uint32_t job = 1; job < plan.jobs.size(); ++job) {
      const Json base = Json::parse(fingerprint_base(plan, job));
      found.push_back(base.at("reuse").at("program"));
      CHECK(base.at("reuse").size() == 1);
      CHECK(job_spec(plan, job).sources.programs.begin()->second == found.back());
    }
    return found;
  };
  using Found = std::vector<std::string>;
  const std::string first = one + " " + sha256_hex("1");
  const std::string second = two + " " + sha256_hex("2");
  CHECK(programs(R"(run: ["${{ params.folder }}/tool"])") == Found{first});
  CHECK(programs(R"(run: [tool], env: {PATH: "/bin:${{ params.folder }}"})") == Found{first});
  CHECK(programs(R"(run: ["${{ matrix.tool }}"], matrix: {tool: [)" + one + ", " + two + "]}") ==
        Found{first, second});
  CHECK_THROWS_WITH(programs(R"(run: ["${{ steps.l.outputs.o }}"])"),
                    Catch::Contains("the program of step 'a' is decided by another step"));
  CHECK_THROWS_WITH(programs(R"(run: [tool], env: {PATH: "${{ steps.l.outputs.o }}"})"),
                    Catch::Contains("PATH of step 'a' is decided by another step"));
}

TEST_CASE("links to files and folders in inputs are followed, but not forever", "[plan]") {
  const TempDir folder;
  folder.write("shared/c/d.py", "x = 1");
  folder.write("lib/b.py", "x = 2");
  std::filesystem::create_symlink("../shared", folder.path() / "lib" / "more");
  std::filesystem::create_symlink("b.py", folder.path() / "lib" / "e.py");
  const Workflow workflow = one_step("run: x, inputs: [lib]", folder.path());
  CHECK(plan_of(workflow).steps[0].inputs ==
        std::vector<std::string>{"lib/b.py", "lib/e.py", "lib/more/c/d.py"});

  std::filesystem::create_symlink("../../lib", folder.path() / "shared" / "c" / "back");
  CHECK_THROWS_WITH(plan_of(workflow), Catch::Contains("step 'a' reads ") &&
                                           Catch::Contains("/lib/more/c/back: ") &&
                                           Catch::Contains("symbolic links"));
}

TEST_CASE("an input whose name is not UTF-8 is reported", "[plan]") {
  const TempDir folder;
  folder.write("in/\xe9.txt", "1");
  CHECK_THROWS_WITH(step_base("run: ls, inputs: [in]", folder.path()),
                    Catch::Contains("in/\\xe9.txt is not UTF-8"));
}

TEST_CASE("runs are not inputs", "[plan]") {
  const TempDir folder;
  folder.write("a.py", "");
  folder.write("dlflow-runs/w-1234/sources/a.py", "");
  const Workflow workflow = one_step("run: x, inputs: [.]", folder.path());
  Profile profile;
  profile.runs = folder.path() / "dlflow-runs";
  CHECK(test::fresh_plan(workflow, profile).steps[0].inputs == std::vector<std::string>{"./a.py"});
}

TEST_CASE("data that is read in place is identified by names, sizes and times", "[plan]") {
  const TempDir folder;
  folder.write("data/a.bin", "1");
  const std::string keys =
      "uses: evaluate, with: {checkpoint: " + (folder.path() / "none").string() + ", data: data}";
  const auto base = [&] { return step_base(keys, folder.path()); };
  const std::string before = base();
  CHECK(base() == before);
  folder.write("data/b.bin", "2");
  CHECK(base() != before);
  const Plan plan = plan_of(one_step(keys, folder.path()));
  CHECK(plan.files.empty());
  CHECK(job_spec(plan, 0).with.at("data") == (folder.path() / "data").string());
}

TEST_CASE("the layout of ranks and the order of sums are in the fingerprint of fast training",
          "[plan]") {
  const TempDir folder;
  folder.write("m.yaml", "");
  folder.write("data/a.bin", "1");
  Profile profile;
  profile.cache = (folder.path() / "cache").string();
  PlanOptions options;
  const auto planned = [&](const std::string& reduction, const std::string& resources) {
    const std::string keys =
        "uses: train, with: {model: m.yaml, data: data, epochs: 1, lr: 0.1, precision: "
        "{reduction: " +
        reduction + "}}, resources: {" + resources + "}";
    return test::fresh_plan(one_step(keys, folder.path()), profile, options);
  };
  const auto base = [&](const std::string& reduction, const std::string& resources) {
    return fingerprint_base(planned(reduction, resources), 0);
  };
  options.automatic_ranks = {{"a", 4}};  // as if the number had been written
  CHECK(planned("exact", "ranks: auto").jobs[0].resources->ranks == 4);
  CHECK(base("fast", "ranks: auto") == base("fast", "ranks: 4"));
  CHECK(base("fast", "ranks: auto") != base("fast", "ranks: 2"));
  CHECK(base("exact", "ranks: auto") == base("exact", "ranks: 2"));
  CHECK(base("fast", "ranks: 4, ranks_per_node: 4") != base("fast", "ranks: 4, ranks_per_node: 2"));
  CHECK(base("exact", "ranks: 4, ranks_per_node: 4") == base("exact", "ranks: 8"));
  const std::string fast = base("fast", "ranks: 4");
  const std::string exact = base("exact", "ranks: 4");
  const auto rules = folder.write("cache/collectives.txt", "4 allreduce=ring:0-max");
  CHECK(base("exact", "ranks: 4") == exact);
  const std::string tuned = base("fast", "ranks: 4");
  CHECK(tuned != fast);
  profile.environment["DLFLOW_COLLECTIVES"] = folder.write("other", "4 allreduce=tree:0-max");
  CHECK(base("fast", "ranks: 4") != tuned);
  CHECK(job_spec(planned("fast", "ranks: 4"), 0).sources.outside.contains(folder.path() / "other"));
  profile.environment["DLFLOW_COLLECTIVES"] = rules;
  CHECK(base("fast", "ranks: 4") == tuned);
}

TEST_CASE("an unpinned staged file is identified by its size and time", "[plan]") {
  const TempDir folder;
  const auto file = folder.write("x.bin", "1");
  const auto base = [&](const std::string& more) {
    return step_base("uses: stage, with: {sources: [{url: \"file://" + file.string() + "\"" + more +
                     "}]}");
  };
  const std::string pinned = ", sha256: " + std::string(64, 'a');
  const std::string before = base("");
  const std::string pinned_before = base(pinned);
  folder.write("x.bin", "22");
  CHECK(base("") != before);
  CHECK(base(pinned) == pinned_before);
}

TEST_CASE("an address of a server that the profile names differs between servers", "[plan]") {
  Profile profile;
  const auto base = [&](const std::string& keys) {
    return step_base("uses: stage, with: {sources: [{url: 's3://b/x'}]}" + keys, "/tmp", profile);
  };
  const std::string none = base("");
  profile.environment = {{"AWS_ENDPOINT_URL", "https://one.example"}, {"MODE", "a"}};
  const std::string one = base("");
  const std::string own = base(", env: {AWS_ENDPOINT_URL: 'https://own.example'}");
  CHECK(one != none);
  profile.environment["MODE"] = "b";
  CHECK(base("") == one);
  profile.environment["AWS_ENDPOINT_URL"] = "https://two.example";
  CHECK(base("") != one);
  CHECK(base(", env: {AWS_ENDPOINT_URL: 'https://own.example'}") == own);

  const std::string here = base("");
  profile.environment["RCLONE_CONFIG"] = "/etc/rclone.conf";
  CHECK(base("") != here);
}

TEST_CASE("an address of a server that the shell names differs between servers", "[plan]") {
  const auto plan_in = [](const char* config) {
    const test::Variable rclone("RCLONE_CONFIG", config);
    const test::Variable hub("HF_ENDPOINT", config);  // not passed on
    return test::fresh_plan(one_step("uses: stage, with: {sources: [{url: 'rclone://b/x'}]}"));
  };
  const Plan one = plan_in("/one");
  CHECK(fingerprint_base(one, 0) == fingerprint_base(plan_in("/one"), 0));
  CHECK(fingerprint_base(one, 0) != fingerprint_base(plan_in("/two"), 0));
  CHECK(job_spec(one, 0).sources.variables ==
        std::map<std::string, std::string>{{"RCLONE_CONFIG", "/one"}});  // also where it runs
}

TEST_CASE("a variable that the profile passes on is in the fingerprint, even if not mentioned",
          "[plan]") {
  const TempDir folder;
  folder.write("mode.py", "os.environ['AUDIT_MODE']");
  const auto plan_of = [&](const char* mode, const std::string& keys) {
    const test::Variable variable("AUDIT_MODE", mode);
    Profile profile;
    profile.inherit = {"AUDIT_*"};
    return test::fresh_plan(one_step(keys, folder.path()), profile);
  };
  const auto counts = [&](const std::string& keys) {
    return fingerprint_base(plan_of("one", keys), 0) != fingerprint_base(plan_of("two", keys), 0);
  };
  CHECK(counts("run: 'echo $AUDIT_MODE'"));
  CHECK(counts("run: [python3, mode.py], inputs: [mode.py]"));
  CHECK(counts("run: 'env > o'"));
  CHECK_FALSE(counts("run: 'echo $AUDIT_MODE', env: {AUDIT_MODE: x}"));
  CHECK_FALSE(counts("run: 'echo $AUDIT_MODE', secrets: [AUDIT_MODE]"));
  CHECK(job_spec(plan_of("one", "run: 'echo $AUDIT_MODE'"), 0).sources.inherited ==
        std::map<std::string, std::string>{{"AUDIT_MODE", sha256_hex("one")}});
}

TEST_CASE("a variable with a secret's name is a secret if the profile passes it on", "[plan]") {
  const test::Variable token("AUDIT_TOKEN", "not told");
  const test::Variable mode("AUDIT_MODE", "one");
  Profile profile;
  profile.inherit = {"AUDIT_*"};
  const auto spec_of = [&](const std::string& keys) {
    return job_spec(test::fresh_plan(one_step(keys), profile), 0);
  };
  const JobSpec command = spec_of("run: x");
  CHECK(command.secrets == std::set<std::string>{"AUDIT_TOKEN"});
  CHECK(command.sources.inherited.at("AUDIT_TOKEN") == sha256_hex("not told"));
  CHECK(spec_of("uses: stage, with: {sources: [{url: 's3://b/x'}]}").secrets == command.secrets);
  CHECK(spec_of("run: x, env: {AUDIT_TOKEN: own}").secrets.empty());
  token.set("x");  // too short to be kept out of logs
  CHECK(spec_of("run: x").secrets.empty());
}

TEST_CASE("the permission to run a pinned file is in the fingerprint alone", "[plan]") {
  const TempDir folder;
  const auto file = folder.write("tool", "x");
  const std::string hash(64, 'a');
  const auto base = [&](const std::string& keys) {
    return step_base("uses: stage, with: {sources: [{url: 'file://" + file.string() +
                     "', sha256: " + hash + keys + "}]}");
  };
  const std::string plain = base("");
  const std::string archive = base(", unpack: tar");
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  CHECK(base("") != plain);
  CHECK(base(", unpack: tar") == archive);
}

TEST_CASE("installed packages of an environment are in the fingerprint, its path is not",
          "[plan]") {
  const TempDir folder;
  const auto base = [&](const std::string& environment) {
    return step_base("run: x, environment: {" + environment + "}", folder.path());
  };
  folder.write("p/uv.lock", "numpy 1");
  folder.write("v/lib/python3.11/site-packages/numpy-1.0.dist-info/METADATA", "");
  folder.write("lock.txt", "one");
  const std::string uv = base("uv: p");
  const std::string venv = base("venv: v");
  const std::string conda = base("conda: torch, lock: lock.txt");
  CHECK(base("uv: p") == uv);
  CHECK(uv.find(folder.path().string()) == std::string::npos);
  CHECK(base("modules: [cuda/11]") != base("modules: [cuda/12]"));
  folder.write("p/uv.lock", "numpy 2");
  folder.write("v/lib/python3.11/site-packages/torch-2.0.dist-info/METADATA", "");
  folder.write("lock.txt", "two");
  CHECK(base("uv: p") != uv);
  CHECK(base("venv: v") != venv);
  CHECK(base("conda: torch, lock: lock.txt") != conda);
  CHECK_THROWS_WITH(base("conda: torch, lock: none.txt"),
                    Catch::Contains("environment.lock of step 'a': there is no file"));
}

TEST_CASE("an environment is identified by the code of its packages, also of linked ones",
          "[plan]") {
  const TempDir folder;
  FreshFileHashes hashes;
  const std::string site = "v/lib/python3.11/site-packages/";
  const std::string package = site + "net-1.0.dist-info/";
  const std::filesystem::path venv = folder.path() / "v";
  folder.write(package + "METADATA", "");
  const auto packages = [&] { return installed_packages(venv, hashes); };
  const auto origin = [&](const std::string& more) {
    folder.write(package + "direct_url.json",
                 R"({"url": "file://)" + (folder.path() / "project").string() + "\"" + more + "}");
  };
  SECTION("another build of the same version") {
    folder.write(package + "RECORD", "net/a.py,sha256=1,10\n../../../bin/net,sha256=7,9\n");
    const std::string first = packages();
    folder.write(package + "RECORD", "net/a.py,sha256=1,10\n../../../bin/net,sha256=8,9\n");
    CHECK(packages() == first);  // a script that contains its Python's path
    folder.write(package + "RECORD", "net/a.py,sha256=2,10\n../../../bin/net,sha256=8,9\n");
    CHECK(packages() != first);
  }
  SECTION("another commit of the same version") {
    origin(R"(, "vcs_info": {"vcs": "git", "commit_id": "1"})");
    const std::string first = packages();
    origin(R"(, "vcs_info": {"vcs": "git", "commit_id": "2"})");
    CHECK(packages() != first);
  }
  SECTION("code of an editable project") {
    const bool names_modules = GENERATE(false, true);
    origin(R"(, "dir_info": {"editable": true})");
    if (names_modules) folder.write(package + "top_level.txt", "net\ntool\n");
    folder.write("project/src/net/a.py", "1");
    folder.write("project/tool.py", "1");
    folder.write("project/data.csv", "1");
    const std::string first = packages();
    folder.write("project/data.csv", "2");
    folder.write("project/src/net/__pycache__/b.py", "2");
    folder.write("project/runs/one/plan.json", "{}");
    folder.write("project/runs/one/sources/c.py", "2");
    CHECK(packages() == first);
    folder.write("project/src/net/a.py", "2");
    const std::string second = packages();
    CHECK(second != first);
    folder.write("project/tool.py", "2");
    CHECK(packages() != second);
  }
  SECTION("a copied project is identified by its copy") {
    origin(R"(, "dir_info": {})");
    folder.write("project/net/a.py", "1");
    const std::string first = packages();
    folder.write("project/net/a.py", "2");
    CHECK(packages() == first);
  }
  SECTION("unreadable code does not cause a failure") {
    folder.write(package + "direct_url.json", "[");
    CHECK_FALSE(packages().empty());
  }
}

TEST_CASE(
    "a virtual environment includes its interpreter, its settings and startup files of Python",
    "[plan]") {
  const TempDir folder;
  FreshFileHashes hashes;
  const std::string site = "v/lib/python3.11/site-packages/";
  const std::string home = (folder.path() / "usr/bin").string();
  const auto settings = [&](const std::string& command, const std::string& sees_system) {
    folder.write("v/pyvenv.cfg", "home = " + home + "\ninclude-system-site-packages = " +
                                     sees_system + "\ncommand = " + command + "\n");
  };
  folder.write("v/bin/python3", "one");
  folder.write(site + "net-1.0.dist-info/METADATA", "");
  folder.write("more/tool.py", "1");
  folder.write(site + "more.pth", (folder.path() / "more").string() + "\n");
  folder.write("usr/lib/python3/dist-packages/yaml-1.0.dist-info/METADATA", "");
  settings("python3 -m venv v", "false");
  const auto packages = [&] { return installed_packages(folder.path() / "v", hashes); };
  const std::string first = packages();
  settings("python3 -m venv elsewhere/v", "false");
  CHECK(packages() == first);
  SECTION("interpreter") { folder.write("v/bin/python3", "two"); }
  SECTION("settings") { settings("python3 -m venv v", "true"); }
  SECTION("sitecustomize") { folder.write(site + "sitecustomize.py", "import sys"); }
  SECTION("another .pth file") { folder.write(site + "a.pth", "import a"); }
  SECTION("code that a .pth file names") { folder.write("more/tool.py", "2"); }
  SECTION("a visible package of the system") {
    settings("python3 -m venv v", "true");
    const std::string system = packages();
    folder.write("usr/lib/python3/dist-packages/yaml-2.0.dist-info/METADATA", "");
    CHECK(packages() != system);
  }
  CHECK(packages() != first);
}

TEST_CASE("a job gets the packages that its plan has found", "[plan]") {
  const TempDir folder;
  const auto packages = [&](const std::string& environment) {
    return job_spec(plan_of(one_step("run: x, environment: {" + environment + "}", folder.path())),
                    0)
        .sources.packages;
  };
  using Packages = std::map<std::string, std::string>;
  const std::string lock = folder.write("p/uv.lock", "numpy 1").string();
  folder.write("v/lib/python3.11/site-packages/numpy-1.0.dist-info/METADATA", "");
  CHECK(packages("uv: p") == Packages{{lock, sha256_hex("numpy 1")}});
  CHECK(packages("venv: v") ==
        Packages{{(folder.path() / "v").string(), sha256_hex("python3.11/numpy-1.0.dist-info")}});
  CHECK(packages("uv: other") == Packages{{(folder.path() / "other/uv.lock").string(), ""}});
  CHECK(packages("modules: [cuda/11]").empty());
}

namespace {

/// Knows every result.
class AllKnown : public KnownResults {
 public:
  std::optional<KnownResult> find(const Fingerprint&, std::span<const std::string>) override {
    return KnownResult();
  }
};

/// All results are known, but other runs disturbed the external effects behind them.
class Disturbed : public AllKnown {
 public:
  explicit Disturbed(Json outputs) : outputs_(std::move(outputs)) {}
  std::optional<KnownResult> find(const Fingerprint&,
                                  std::span<const std::string> acting) override {
    if (acting.empty()) {
      return KnownResult{.run = "w-1", .job = "a", .directory = "/r/a", .outputs = outputs_};
    }
    asked.assign(acting.begin(), acting.end());
    return std::nullopt;
  }
  std::vector<std::string> asked;

 private:
  Json outputs_;
};

}  // namespace

TEST_CASE("a result is not reused if another run disturbed the external effects of its parents",
          "[plan]") {
  const Workflow workflow = parsed(
      "name: w\nsteps:\n"
      "  a: {run: ./a}\n"
      "  e: {uses: evaluate, with: {checkpoint: /c, data: /d}}\n"
      "  b: {run: ./b, needs: [a, e]}\n");
  FreshFileHashes hashes;
  Disturbed elsewhere(Json::object());
  const Plan plan = make_plan(workflow, Profile(), {}, elsewhere, hashes);
  CHECK(elsewhere.asked == std::vector<std::string>{"a"});  // not dlflow's own steps
  CHECK(plan.jobs[2].action == Action::Run);
  const Json left = {{"o", {{"value", "/r/a/o"}, {"sha256", "1"}}}};
  Disturbed here(left);
  CHECK(make_plan(workflow, Profile(), {}, here, hashes).jobs[2].action == Action::Reuse);
}

TEST_CASE("a step with unknown packages is not reused, whatever an earlier run has left",
          "[plan]") {
  const TempDir folder;
  AllKnown known;
  const auto action = [&] {
    return plan_of(one_step("run: x, environment: {uv: p}", folder.path()), {}, &known)
        .jobs[0]
        .action;
  };
  CHECK(action() == Action::Run);
  folder.write("p/uv.lock", "numpy 1");
  CHECK(action() == Action::Reuse);
}

TEST_CASE("an environment is loaded after the profile's setup", "[plan]") {
  const TempDir folder;
  const Plan plan = plan_of(one_step("run: x, environment: {venv: v}", folder.path()));
  const JobSpec spec = job_spec(plan, 0);
  REQUIRE(spec.setup.size() == 1);
  CHECK_THAT(spec.setup[0], Catch::Contains((folder.path() / "v/bin/activate").string()));
}

TEST_CASE(
    "a place that depends on a step's numbers gets another fingerprint than in earlier versions",
    "[plan]") {
  const auto is_late = [](const std::string& data) {
    Json with = {{"model", "m.yaml"}, {"lr", "${{ steps.a.matrix.lr }}"}, {"data", data}};
    return names_late_places("train", with);
  };
  CHECK_FALSE(is_late("/data"));
  CHECK_FALSE(is_late("${{ steps.a.outputs.o }}/train"));
  CHECK_FALSE(is_late("${{ max_by(steps.a.outputs.o, steps.a.metrics.m) }}"));
  CHECK(is_late("/data/${{ steps.a.metrics.year }}"));
  CHECK(is_late("${{ steps.a.matrix.data }}"));
  CHECK(is_late("${{ lookup(params.sets, steps.a.outputs.o) }}"));
  CHECK(is_late("${{ max_by(params.sets, steps.a.metrics.m) }}"));
  const auto stages = [](const std::string& url) {
    return names_late_places("stage", {{"sources", {{{"url", url}}}}});
  };
  CHECK(stages("file:///data/${{ steps.a.metrics.year }}"));
  CHECK_FALSE(stages("file:///data/2026"));
}
