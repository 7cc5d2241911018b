#include "engine/share/bundle.h"

#include "base/sha256.h"
#include "base/version.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/contents.h"
#include "engine/share/private_words.h"
#include "engine/share/zip_reader.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/plan/plan_of.h"

using namespace dlflow;
using test::TempDir;

namespace fs = std::filesystem;

namespace {

Plan plan_of(const std::string& text, const fs::path& folder,
             const std::vector<std::string>& set = {}) {
  return test::fresh_plan(test::parsed(text, folder, set));
}

Bundle collected(const std::string& text, const TempDir& folder, const PackOptions& options = {},
                 const std::vector<std::string>& set = {}) {
  FreshFileHashes hashes;
  return collect(plan_of(text, folder.path(), set), options, hashes);
}

std::vector<std::string> names(const Manifest& manifest) {
  std::vector<std::string> list;
  for (const auto& [name, file] : manifest.files) list.push_back(name);
  return list;
}

constexpr const char* kText = R"(
name: shared
params: {n: 1}
steps:
  a: {run: ./a.sh, inputs: [a.sh, lib]}
)";

}  // namespace

TEST_CASE("the same content makes the same bundle, at any place and time", "[bundle]") {
  std::vector<std::string> bytes;
  for (const char* place : {"here", "there/and/deeper"}) {
    const TempDir folder;
    folder.write(std::string(place) + "/lib/b.py", "b");
    folder.write(std::string(place) + "/a.sh", "a");
    fs::last_write_time(folder.path() / place / "a.sh",
                        fs::file_time_type::clock::now() - std::chrono::hours(bytes.size()));
    FreshFileHashes hashes;
    const fs::path output = folder.path() / "out";
    write_bundle(collect(plan_of(kText, folder.path() / place), {}, hashes), output);
    bytes.push_back(read_file(output));
  }
  CHECK(bytes[0] == bytes[1]);
}

TEST_CASE("a bundle has the files that a run would freeze, under the same names", "[bundle]") {
  const TempDir folder;
  folder.write("lib/b.py", "b");
  folder.write("lib/c.py", "c");
  folder.write("a.sh", "a");
  folder.write("unused", "x");
  const Bundle bundle = collected(kText, folder, {}, {"n=5"});
  const Manifest manifest = write_bundle(bundle, folder.path() / "out");
  CHECK(names(manifest) == std::vector<std::string>{"workflow/a.sh", "workflow/lib/b.py",
                                                    "workflow/lib/c.py", "workflow/workflow.yaml"});
  CHECK(settings(manifest) == std::vector<std::string>{"n=5"});
  BundleReader reader(folder.path() / "out");
  CHECK(reader.manifest() == manifest);
  CHECK(reader.read_text("workflow/lib/c.py") == "c");
  CHECK(reader.read_text("workflow/workflow.yaml") == kText);
  CHECK(manifest.dlflow == DLFLOW_VERSION);
  for (const char* none : {"dlflow-bundle.json", "workflow/unused"}) {
    CHECK_THROWS_WITH(reader.read_text(none), Catch::EndsWith(" holds no " + std::string(none)));
  }
}

TEST_CASE("a file named twice is packed once, and a file that changes meanwhile is refused",
          "[bundle]") {
  const TempDir folder;
  Bundle bundle;
  bundle.manifest.name = "x";
  bundle.files = {{"b", {}, "1"}, {"a", {}, "2"}, {"b", {}, "1"}};
  CHECK(names(write_bundle(bundle, folder.path() / "out")) == std::vector<std::string>{"a", "b"});
  CHECK(ZipReader(folder.path() / "out").entries().size() == 3);
  bundle.files = {{"now", "/proc/sys/kernel/random/uuid"}};  // differs at each read
  CHECK_THROWS_WITH(write_bundle(bundle, folder.path() / "new"),
                    Catch::EndsWith(" changed while it was packed"));
  CHECK_FALSE(fs::exists(folder.path() / "new"));
}

TEST_CASE("files above the workflow keep their relative place", "[bundle]") {
  const TempDir folder;
  folder.write("models/m.yaml", "name: m\n");
  folder.write("flows/x", "");
  const std::string text = R"(
name: up
steps:
  t: {uses: train, with: {model: ../models/m.yaml, data: d, epochs: 1, lr: 1}}
)";
  FreshFileHashes hashes;
  const Bundle bundle = collect(plan_of(text, folder.path() / "flows"), {}, hashes);
  const Manifest manifest = write_bundle(bundle, folder.path() / "out");
  CHECK(manifest.workflow == "workflow/_/workflow.yaml");
  CHECK(manifest.files.contains("workflow/models/m.yaml"));
}

TEST_CASE("data is packed by its hash, which the workflow must declare", "[bundle]") {
  const TempDir folder;
  const fs::path data = folder.write("data.bin", "some data");
  const std::string hash = sha256_hex("some data");
  const auto text = [&](const std::string& further) {
    return "name: d\nsteps:\n  get:\n    uses: stage\n    with:\n      sources: [{url: \"file://" +
           data.string() + "\"" + further + "}]\n";
  };
  const Bundle without = collected(text(", sha256: \"" + hash + "\""), folder);
  REQUIRE(without.manifest.data.size() == 1);
  CHECK_FALSE(without.manifest.data.front().packed);
  const Diagnostics paths = machine_paths(without);
  REQUIRE(paths.size() == 1);
  CHECK(paths.front().location.line == 6);
  CHECK_THAT(paths.front().message, Catch::Contains("--with-data"));

  const Bundle with = collected(text(", sha256: \"" + hash + "\""), folder, {.with_data = true});
  CHECK(write_bundle(with, folder.path() / "out").files.contains("data/" + hash));
  CHECK(machine_paths(with).empty());

  CHECK_THROWS_WITH(collected(text(""), folder, {.with_data = true}),
                    Catch::Contains("workflow.yaml:6:") && Catch::Contains("sha256: " + hash));
  CHECK_THROWS_WITH(
      collected(text(", sha256: \"" + std::string(64, '0') + "\""), folder, {.with_data = true}),
      Catch::Contains("is not what the workflow declares"));
}

TEST_CASE("data with a space in its name is packed, a folder is not", "[bundle]") {
  const TempDir folder;
  folder.write("some data.bin", "some data");
  const std::string hash = sha256_hex("some data");
  const auto packed = [&](const std::string& name) {
    return collected("name: d\nsteps:\n  get: {uses: stage, with: {sources: [{url: \"file://" +
                         folder.path().string() + "/" + name + "\", sha256: \"" + hash + "\"}]}}\n",
                     folder, {.with_data = true});
  };
  CHECK(write_bundle(packed("some%20data.bin"), folder.path() / "out")
            .files.contains("data/" + hash));
  CHECK_THROWS_WITH(packed(""), Catch::Contains("workflow.yaml:3:") &&
                                    Catch::Contains("is not one file, and cannot be packed"));
  CHECK_THROWS_WITH(packed("*.bin"), Catch::Contains("is not one file, and cannot be packed"));
}

TEST_CASE("a directory may list its maximum of files, and not one more", "[bundle]") {
  const TempDir folder;
  folder.write("a.sh", "a");
  folder.write("lib/b", "b");
  Bundle bundle = collected(kText, folder);
  while (bundle.files.size() < 65'533) {
    bundle.files.push_back({"f" + std::to_string(bundle.files.size()), {}, "x"});
  }
  write_bundle(bundle, folder.path() / "out");
  CHECK(BundleReader(folder.path() / "out").manifest().files.size() == 65'533);
  bundle.files.push_back({"one more", {}, "x"});
  CHECK_THROWS_WITH(write_bundle(bundle, folder.path() / "out2"),
                    Catch::Contains("65,534 files are too many"));
  CHECK_FALSE(fs::exists(folder.path() / "out2"));
}

TEST_CASE("a file at an absolute path cannot be packed", "[bundle]") {
  const TempDir folder;
  const fs::path model = folder.write("m.yaml", "name: m\n");
  const std::string text = "name: abs\nsteps:\n  t: {uses: train, with: {model: " + model.string() +
                           ", data: d, epochs: 1, lr: 1}}\n";
  CHECK_THROWS_WITH(collected(text, folder),
                    Catch::Contains("workflow.yaml:3:") && Catch::Contains("absolute path"));
}

TEST_CASE("paths of this machine are found at their place", "[machine_paths]") {
  const TempDir folder;
  const std::string here = folder.path().string();
  folder.write("file", "");
  const std::string text = "name: p\nparams: {where: \"" + here +
                           "/file\"}\nsteps:\n  a:\n    run: |\n      cat " + here +
                           "/file > /dev/null  # not /usr/bin/env, nor a/b, nor http://x/tmp\n" +
                           "      ls /nowhere/at/all\n";
  const Diagnostics found = machine_paths(collected(text, folder, {}, {"where=" + here}));
  REQUIRE(found.size() == 3);
  CHECK(found[0].file == "--set");
  CHECK(found[1].location == Location{2, 18});
  CHECK(found[2].location == Location{6, 11});
}

TEST_CASE("private words are found across pieces of a file, and short ones in text only",
          "[private_words]") {
  const TempDir folder;
  Plan plan;
  plan.directory = folder.path() / "runs/w-1234";
  plan.base = "/work/flows";
  const PrivateWords words(plan, {"n1", "cluster-n7"});
  CHECK(words.find_in("see " + plan.directory.string() + "/x"));
  CHECK(words.find_in("on n1: done"));
  CHECK_FALSE(words.find_in("on n12, bn1 or n1-x"));
  CHECK_FALSE(words.find_in(std::string("\0 n1 ", 5)));
  CHECK(words.find_in(std::string("\0 cluster-n12 ", 14)));
  CHECK_FALSE(words.find_in("cluster-n and cluster-n7x"));
  const std::string far = std::string((size_t{1} << 20) - 4, 'x') + " cluster-n3 ";
  CHECK(words.find_in_file(folder.write("far", far)));
  CHECK_FALSE(words.find_in_file(folder.write("none", far.substr(0, far.size() - 4))));
}
