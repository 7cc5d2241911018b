#include "engine/share/manifest.h"

#include <functional>

#include "engine/share/bundle_summary.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/share/bundles.h"

using namespace dlflow;
using test::good_files;
using test::manifest_of;
using test::TempDir;

namespace {

const std::string kA(64, 'a');
const std::string kB(64, 'b');
const std::string kC(64, 'c');
const std::string kD(64, 'd');
const std::string kE(64, 'e');

/// Returns a manifest in which all fields differ.
Manifest full_manifest() {
  Manifest manifest;
  manifest.dlflow = "0.9.1";
  manifest.name = "full";
  manifest.workflow = "workflow/full.yaml";
  manifest.set = {{"n", 5}, {"name", "\xc3\xa4"}};
  manifest.data = {{"file:///d/one", kA, 11, true}, {"file:///d/two", "", 0, false}};
  manifest.images = {{"box", {"oci:box", Digest::of_hex(kB), true}},
                     {"far", {"docker://far", Digest::of_hex(kC), false}}};
  manifest.run = "full-7f3a";
  manifest.files = {{"data/" + kA, {kA, 11, false}},
                    {"workflow/full.yaml", {kD, 12, false}},
                    {"workflow/run.sh", {kE, 13, true}}};
  return manifest;
}

std::string refused_manifest(const std::function<void(Json&)>& change) {
  Json json = to_json(full_manifest());
  change(json);
  return test::error_of([&] { manifest_from_json(json); });
}

}  // namespace

TEST_CASE("each field of a manifest is read as it was written", "[manifest]") {
  const Manifest manifest = full_manifest();
  const Json json = to_json(manifest);
  CHECK(json == Json::parse(R"({"format": 1, "dlflow": "0.9.1", "name": "full",
      "workflow": "workflow/full.yaml", "set": {"n": 5, "name": "\u00e4"}, "run": "full-7f3a",
      "data": [{"url": "file:///d/one", "bytes": 11, "packed": true, "sha256": ")" +
                            kA + R"("},
               {"url": "file:///d/two", "bytes": 0, "packed": false, "sha256": ""}],
      "images": {"box": {"from": "oci:box", "packed": true, "digest": "sha256:)" +
                            kB + R"("},
                 "far": {"from": "docker://far", "packed": false, "digest": "sha256:)" +
                            kC + R"("}},
      "files": {"data/)" + kA +
                            R"(": {"bytes": 11, "executable": false, "sha256": ")" + kA + R"("},
                "workflow/full.yaml": {"bytes": 12, "executable": false, "sha256": ")" +
                            kD + R"("},
                "workflow/run.sh": {"bytes": 13, "executable": true, "sha256": ")" +
                            kE + R"("}}})"));
  CHECK(manifest_from_json(json) == manifest);
  CHECK(settings(manifest) == std::vector<std::string>{"n=5", R"(name="\u00e4")"});
  CHECK(data_path("x") == "data/x");
}

TEST_CASE("a number in a manifest is set as it was written", "[manifest]") {
  Manifest manifest = full_manifest();
  manifest.written = {{"n", "5.0"}};
  CHECK(manifest_from_json(to_json(manifest)) == manifest);
  CHECK(settings(manifest).front() == "n=5.0");
}

TEST_CASE("a manifest with impossible values is damaged", "[manifest]") {
  const std::string damaged = "dlflow-bundle.json is damaged: ";
  CHECK(refused_manifest([](Json&) {}).empty());
  CHECK(refused_manifest([](Json& m) { m["name"] = "no/name"; }) ==
        damaged + "its name is not valid for a workflow");
  CHECK(refused_manifest([](Json& m) { m["workflow"] = "workflow/other.yaml"; }) ==
        damaged + "it has no workflow");
  CHECK(refused_manifest([](Json& m) { m["set"] = Json::array(); }) ==
        damaged + "'set' is not an object");
  CHECK(refused_manifest([](Json& m) { m["files"]["../x"] = m["files"]["workflow/run.sh"]; }) ==
        damaged + "'../x' is not a file of a bundle");
  CHECK(refused_manifest([](Json& m) { m["files"]["workflow/run.sh"]["sha256"] = "e"; }) ==
        damaged + "'workflow/run.sh' has no checksum");
  CHECK(refused_manifest([](Json& m) { m["data"][1]["packed"] = true; }) ==
        damaged + "it declares file:///d/two");
  CHECK_THAT(refused_manifest([](Json& m) { m.erase("run"); }), Catch::StartsWith(damaged));
  CHECK(refused_manifest([](Json& m) { m["format"] = 1; }).empty());
  CHECK_THAT(refused_manifest([](Json& m) { m["format"] = 2; }),
             Catch::StartsWith("a newer dlflow (0.9.1) wrote this bundle"));
}

namespace {

constexpr const char* kManifestWorkflow = R"(
name: full
params: {n: 1, name: x}
images: {box: {from: "oci:box"}}
steps:
  get: {uses: stage, with: {sources: [{url: "file:///d/one"}]}}
  stage: {uses: stage, with: {sources: [{url: "file:///d/two"}]}}
  work: {run: "true", image: box, needs: [get]}
)";

const Json kRun = {
    {"run", "full-7f3a"},
    {"state", "failed"},
    {"scheduler", "slurm"},
    {"dlflow", "0.8"},
    {"jobs",
     {{{"job", "get"}, {"state", "succeeded"}},
      {{"job", "work"}, {"state", "failed"}, {"metrics", {{"loss", 0.25}, {"top", 3}}}}}}};

/// A bundle with all that a summary shows.
std::filesystem::path full_bundle(const TempDir& folder, const std::string& run = kRun.dump()) {
  const std::vector<test::Packed> files = {
      {"run/run.json", run},
      {"workflow/full.yaml", kManifestWorkflow},
      {"workflow/run.sh", std::string(2048, 'x'), S_IFREG | 0755}};
  Manifest manifest = full_manifest();
  manifest.files = manifest_of(files).files;
  manifest.data[0].packed = false;
  return folder.write("b.dlflow",
                      test::zip_of(folder.path(), test::with_manifest(manifest, files)));
}

}  // namespace

TEST_CASE("a summary shows the content of a bundle and the end of its run", "[bundle]") {
  const TempDir folder;
  BundleSummary summary = summarize(full_bundle(folder));
  CHECK(summary.bytes == std::filesystem::file_size(folder.path() / "b.dlflow"));
  CHECK(summary.run == kRun);
  summary.bytes = 3000;
  summary.manifest.data[0].packed = true;
  summary.manifest.files["workflow/run.sh"].sha256 = "-";
  CHECK(to_text(summary) ==
        "full  2.9 KiB, by dlflow 0.9.1\n"
        "\n"
        "workflow  workflow/full.yaml\n"
        "params    n=5, name=\"\xc3\xa4\"\n"
        "steps     get (stage), stage, work (run)\n"
        "images    box  oci:box  packed\n"
        "          far  docker://far  not packed\n"
        "data      file:///d/one  11 B, packed\n"
        "          file:///d/two  not packed\n"
        "run       full-7f3a failed, slurm, dlflow 0.8\n"
        "  get              succeeded  \n"
        "  work             failed     loss 0.25, top 3\n"
        "\n"
        "178 B     run/run.json\n"
        "254 B     workflow/full.yaml\n"
        "2.0 KiB   workflow/run.sh\n");
  Json json = to_json(summary);
  for (const char* key : {"files", "images", "data", "run"}) json.erase(key);
  CHECK(json == Json::parse(R"({"bytes": 3000, "dlflow": "0.9.1", "format": 1, "name": "full",
      "params": {"n": 5, "name": "\u00e4"}, "set": {"n": 5, "name": "\u00e4"},
      "steps": [{"image": null, "name": "get", "needs": [], "uses": "stage"},
                {"image": null, "name": "stage", "needs": [], "uses": "stage"},
                {"image": "box", "name": "work", "needs": ["get"], "uses": null}],
      "workflow": "workflow/full.yaml"})"));
  CHECK(to_json(summary).at("run") == kRun);
}

TEST_CASE("the summary of a bundle without a run mentions none", "[bundle]") {
  const TempDir folder;
  std::filesystem::create_directory(folder.path() / "z");
  const std::string zip = test::zip_of(
      folder.path() / "z", test::with_manifest(manifest_of(good_files()), good_files()));
  const BundleSummary summary = summarize(folder.write("b.dlflow", zip));
  CHECK(summary.run.is_null());
  CHECK(to_text(summary) ==
        "shared  667 B, by dlflow 0.1.0\n"
        "\n"
        "workflow  workflow/w.yaml\n"
        "params    n=1\n"
        "steps     a (run)\n"
        "\n"
        "21 B      workflow/a.sh\n"
        "70 B      workflow/w.yaml\n");
}

TEST_CASE("an invalid record of a run is refused", "[bundle]") {
  const TempDir folder;
  CHECK_THROWS_WITH(summarize(full_bundle(folder, "[]")), "run/run.json is not an object");
  const BundleSummary odd = summarize(full_bundle(folder, R"({"state": 5})"));
  CHECK_THROWS_WITH(to_text(odd), Catch::StartsWith("run/run.json is damaged: "));
}

TEST_CASE("a bundle with an invalid workflow is refused by its summary", "[bundle]") {
  const TempDir folder;
  const std::vector<test::Packed> files = {{"workflow/w.yaml", "steps: 5"}};
  const std::string zip =
      test::zip_of(folder.path(), test::with_manifest(manifest_of(files), files));
  CHECK_THROWS_WITH(summarize(folder.write("b.dlflow", zip)),
                    Catch::StartsWith("the bundle's workflow is not valid: workflow/w.yaml:"));
}
