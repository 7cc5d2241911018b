#include "engine/supervisor/input_proof.h"

#include <fstream>

#include "base/file.h"
#include "base/sha256.h"
#include "engine/container/tree.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/installed.h"
#include "tests/support/catch.h"
#include "tests/unit/engine/supervisor/job.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// A job that reads a frozen copy, external data, and an output of its parent.
struct Reader {
  explicit Reader(const std::string& script) : parent("echo 1 > $DLFLOW_OUTPUTS/o"), job(script) {
    parent.spec.outputs = {{"o", "o"}};
    parent.spec.step = "parent";
    REQUIRE(parent.execute().state == JobState::Succeeded);
    job.spec.parents = {{"parent", Json::object(), parent.spec.job_directory}};
    frozen = job.run.write("sources/model.yaml", "v1");
    data = elsewhere.write("data", "v1");
    job.run.write("plan.json", "{}");
    job.spec.sources.frozen[frozen.string()] = sha256_hex("v1");
    job.spec.sources.outside[data.string()] = data_identity(data.string());
    lock = elsewhere.write("uv.lock", "numpy 1");
    elsewhere.write("venv/lib/python3.11/site-packages/numpy-1.0.dist-info/METADATA", "");
    FreshFileHashes hashes;
    for (const fs::path& place : {lock, venv()}) {
      job.spec.sources.packages[place.string()] = installed_packages(place, hashes);
    }
    job.spec.environment = {{"LOCK", lock.string()},
                            {"VENV", venv().string()},
                            {"FROZEN", frozen.string()},
                            {"DATA", data.string()},
                            {"PARENT", (parent.spec.job_directory / "outputs/o").string()}};
  }

  fs::path venv() const { return elsewhere.path() / "venv"; }

  test::TempDir elsewhere;
  test::Job parent;
  test::Job job;
  fs::path frozen, data, lock;
};

}  // namespace

TEST_CASE("a job with unchanged inputs has a result that can be reused", "[input_proof]") {
  const Reader reader("cat $FROZEN $DATA $PARENT");
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK_FALSE(end.fingerprint.empty());
  CHECK(end.reason.empty());
}

TEST_CASE("a frozen copy counts as unchanged if only its permissions changed during the run",
          "[input_proof]") {
  const Reader reader("chmod 600 $FROZEN; chmod 444 $FROZEN");
  const JobEvent end = reader.job.execute();
  CHECK_FALSE(end.fingerprint.empty());
  CHECK(end.reason.empty());
}

TEST_CASE("a frozen copy that was rewritten with its old time prevents reuse", "[input_proof]") {
  const Reader reader(
      "chmod u+w $FROZEN; touch -r $FROZEN time; printf v2 > $FROZEN; "
      "touch -r time $FROZEN");
  CHECK(reader.job.execute().fingerprint.empty());
}

TEST_CASE("an input that changed after planning prevents reuse, with the reason", "[input_proof]") {
  Reader reader("cat $FROZEN $DATA $PARENT");
  std::string named;
  SECTION("a frozen copy") {
    std::ofstream(reader.frozen) << "v2";
    named = "model.yaml was changed";
  }
  SECTION("external data with unchanged size and time") {
    const auto time = fs::last_write_time(reader.data);
    std::ofstream(reader.data) << "v2";
    fs::last_write_time(reader.data, time);
    named = "changed after the run was planned";
  }
  SECTION("external data that did not exist") {
    reader.job.spec.sources.outside[reader.data.string()] = "";
    named = "changed after the run was planned";
  }
  SECTION("outputs of a parent") {
    const fs::path output = reader.parent.spec.job_directory / "outputs/o";
    fs::permissions(output, fs::perms::owner_all);
    std::ofstream(output, std::ios::app) << "2\n";
    named = "of step parent, outputs/o was changed after it was published";
  }
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
  CHECK_THAT(end.reason, Catch::StartsWith("will not be reused: ") && Catch::Contains(named));
}

TEST_CASE("a result is not reused if its packages differ from the plan", "[input_proof]") {
  const std::string script = "true";
  const std::string named =
      "the packages of its `environment:` changed after the run was planned: see ";
  SECTION("a lock file that changed before the program began") {
    const Reader reader(script);
    std::ofstream(reader.lock) << "numpy 2";
    CHECK(reader.job.execute().reason == "will not be reused: " + named + reader.lock.string());
  }
  SECTION("a lock file that changed while the program ran") {
    const Reader reader("echo numpy 2 > $LOCK");
    CHECK(reader.job.execute().reason == "will not be reused: " + named + reader.lock.string());
  }
  SECTION("an additional package in a virtual environment") {
    const Reader reader("mkdir $VENV/lib/python3.11/site-packages/torch-2.0.dist-info");
    const JobEvent end = reader.job.execute();
    CHECK(end.state == JobState::Succeeded);
    CHECK(end.fingerprint.empty());
    CHECK(end.reason == "will not be reused: " + named + reader.venv().string());
  }
  SECTION("a removed virtual environment") {
    const Reader reader("rm -r $VENV");
    CHECK(reader.job.execute().fingerprint.empty());
  }
  SECTION("a lock file that the plan did not find") {
    Reader reader(script);
    reader.job.spec.sources.packages[reader.lock.string()] = "";
    const JobEvent end = reader.job.execute();
    CHECK(end.state == JobState::Succeeded);
    CHECK(end.fingerprint.empty());
    CHECK(end.reason == "will not be reused: the packages of its `environment:` are not known: " +
                            reader.lock.string() + " was not there when the run was planned");
  }
}

TEST_CASE("a result of an image that was changed in its folder is not reused", "[input_proof]") {
  Reader reader("true");
  const test::TempDir image;
  image.write("etc/version", "v1");
  const auto sha256 = [](const fs::path& file) { return sha256_file(file); };
  reader.job.spec.container.emplace();
  reader.job.spec.container->from = "dir:" + image.path().string();
  reader.job.spec.container->digest = folder_digest(image.path(), sha256);
  const auto change = [&] { return InputProof(reader.job.spec).find_change(); };
  CHECK(change() == std::nullopt);
  add_mount_points(image.path());  // as by the first container
  CHECK(change() == std::nullopt);
  image.write("etc/version", "v2");
  const std::string told =
      "the image " + image.path().string() + " changed after the run was planned";
  CHECK(change() == told);
  image.write("etc/version", "v1");
  const InputProof proof(reader.job.spec);
  image.write("etc/hosts", "127.0.0.1 other");
  CHECK(proof.find_change() == told);
  image.write("etc/hosts", "");
  CHECK(change() == std::nullopt);
}

TEST_CASE("an image in a folder that is unchanged since planning is not read", "[input_proof]") {
  Reader reader("true");
  const test::TempDir image;
  const auto file = image.write("etc/version", "v1");
  reader.job.spec.container.emplace();
  reader.job.spec.container->from = "dir:" + image.path().string();
  const auto change = [&] { return InputProof(reader.job.spec).find_change(); };
  CHECK(change() != std::nullopt);
  fs::path planned;
  do {  // times of files are coarse
    planned = reader.job.run.write("workflow.yaml", "");
  } while (identity_of(planned).ctime_ns <= identity_of(file).ctime_ns);
  CHECK(change() == std::nullopt);
  fs::rename(file, image.path() / "etc/other");
  CHECK(change() != std::nullopt);
}

TEST_CASE("a change of anything that `reuse:` names prevents reuse", "[input_proof]") {
  Reader reader("true");
  const auto write_tool = [&](const std::string& place, const std::string& content) {
    return reader.elsewhere.write_program(place, content);
  };
  const fs::path tool = write_tool("bin/tool", "v1");
  const std::string identity = tool.string() + " " + sha256_hex("v1");
  const std::string folder = tool.parent_path();
  reader.job.spec.environment["PATH"] = folder + ":/usr/bin:/bin";
  reader.job.spec.sources.programs = {{"tool", identity}};
  reader.job.spec.sources.variables = {{"AUDIT_MODE", ""}};
  std::string named;
  SECTION("nothing has changed") {
    CHECK_FALSE(reader.job.execute().fingerprint.empty());
    return;
  }
  SECTION("the program was replaced") {
    write_tool("bin/tool", "v2");
    named = "the program tool changed";
  }
  SECTION("another program comes first") {
    reader.job.spec.environment["PATH"] =
        write_tool("first/tool", "v1").parent_path().string() + ":" + folder;
    named = "the program tool changed";
  }
  SECTION("setup lines may choose another program") {
    reader.job.spec.sources.programs["tool"] = "";
    named = "may decide which program tool is";
  }
  SECTION("the program was replaced while it ran") {
    reader.job.spec.run_command = "echo v2 > " + tool.string();
    named = "the program tool changed";
  }
  SECTION("a variable has another value than at planning") {
    reader.job.spec.inherit = {"AUDIT_MODE"};
    reader.job.spec.sources.variables["AUDIT_MODE"] = "two";
    named = "the variable AUDIT_MODE";
  }
  SECTION("a variable that the profile passes on has another value") {
    reader.job.spec.sources.inherited["AUDIT_MODE"] = sha256_hex("two");
    named = "the variable AUDIT_MODE";
  }
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
  CHECK_THAT(end.reason, Catch::Contains(named));
}

TEST_CASE("a result whose input changed while its program ran is not reused", "[input_proof]") {
  const std::string input = GENERATE(as<std::string>{}, "$FROZEN", "$DATA", "$PARENT");
  CAPTURE(input);
  const Reader reader("chmod u+w " + input + "; echo more >> " + input);
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
  CHECK_THAT(end.reason, Catch::StartsWith("will not be reused: "));
}

TEST_CASE("data that is exchanged and restored while the program runs prevents reuse",
          "[input_proof]") {
  Reader reader("true");
  const fs::path folder = reader.elsewhere.path();
  reader.elsewhere.write("old/x", "1");
  reader.elsewhere.write("new/x", "2");
  fs::create_directory_symlink(folder / "old", folder / "link");
  fs::path data = folder / "old";
  SECTION("a folder") {
    reader.job.spec.run_command = "mv $DATA $DATA.aside; mv $DATA.aside $DATA";
  }
  SECTION("a link to the data") {
    data = folder / "link";
    reader.job.spec.run_command = "ln -sfn $NEW $DATA; ln -sfn $OLD $DATA";
  }
  SECTION("a link above the data") {
    reader.elsewhere.write("old/set/x", "1");
    data = folder / "link/set";
    reader.job.spec.run_command = "ln -sfn $NEW $LINK; ln -sfn $OLD $LINK";
  }
  SECTION("a link on the way to the data") {
    data = folder / "first";
    fs::create_directory_symlink("link", data);
    reader.job.spec.run_command = "ln -sfn $NEW $LINK; ln -sfn $OLD $LINK";
  }
  SECTION("a link in the data") {
    fs::create_directory_symlink(folder / "new", folder / "old/part");
    data = folder / "old";
    reader.job.spec.run_command = "mv $NEW $NEW.aside; mv $NEW.aside $NEW";
  }
  reader.job.spec.environment.update({{"OLD", (folder / "old").string()},
                                      {"NEW", (folder / "new").string()},
                                      {"LINK", (folder / "link").string()},
                                      {"DATA", data.string()}});
  reader.job.spec.sources.outside = {{data.string(), data_identity(data.string())}};
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(data_identity(data.string()) == reader.job.spec.sources.outside.begin()->second);
  CHECK(end.fingerprint.empty());
  CHECK_THAT(end.reason, Catch::Contains("was replaced while it ran"));
}

TEST_CASE("a child of a result without an identity has none either", "[input_proof]") {
  Reader reader("true");
  reader.parent.spec.outputs.clear();  // a second attempt declares none
  JobEvent succeeded;
  succeeded.state = JobState::Succeeded;
  AppendFile(reader.parent.attempt() / "events.jsonl").append(to_line(succeeded));
  const JobEvent end = reader.job.execute();
  CHECK(end.state == JobState::Succeeded);
  CHECK(end.fingerprint.empty());
}

TEST_CASE("a place within the run does not count in a fingerprint, except outputs of parents",
          "[input_proof]") {
  JobSpec spec;
  spec.uses = "evaluate";
  spec.with = {{"checkpoint", "${{ steps.a.outputs.o }}/best"}, {"data", "/data/known"}};
  ParentResult parent;
  parent.outputs = {{"o", {{"value", "/r/steps/a/outputs/o"}, {"sha256", "1"}}}};
  const auto late = [&](const std::string& checkpoint, const std::string& data) {
    return find_late_place(spec, {{"checkpoint", checkpoint}, {"data", data}}, {{parent}});
  };
  const std::string below = "/r/steps/a/outputs/o/best";
  CHECK_FALSE(late(below, "/data/known"));
  CHECK(late("/r/steps/a/outputs/o/../p", "/data/known"));
  CHECK(late(below, "/data/2026") ==
        "/data/2026 was not known when the run was planned, and is not an output of a step");
  spec.sources.outside["/data/2026"] = "1";
  CHECK_FALSE(late(below, "/data/2026"));
  parent.outputs["elsewhere"] = {{"value", {"file:///data/2027/"}}, {"sha256", "2"}};
  CHECK_FALSE(late(below, "/data/2027/part"));

  spec.uses = "stage";
  spec.with = {{"sources", {{{"url", "file:///data/${{ steps.a.metrics.year }}"}}}}};
  const auto staged = [&](const Json& source) {
    return find_late_place(spec, {{"sources", {source}}}, {{parent}});
  };
  CHECK(staged({{"url", "file:///data/2028"}}));
  CHECK_FALSE(staged({{"url", "file:///data/2027"}}));
  CHECK_FALSE(staged({{"url", "file:///data/2028"}, {"sha256", std::string(64, 'a')}}));
}
