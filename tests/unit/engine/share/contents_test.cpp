#include "engine/share/contents.h"

#include <algorithm>

#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/parsed.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using test::TempDir;

namespace fs = std::filesystem;

namespace {

const Digest kDigest = Digest::of_hex(std::string(64, 'd'));

/// Returns the content of a bundle of a workflow with `images`, each of which a step uses.
Bundle collected(const TempDir& folder, const std::string& images, bool with_images,
                 const std::string& further = "") {
  std::string text = "name: boxed\nimages: {" + images + "}\nsteps:\n" + further;
  for (const char* name : {"one", "two"}) {
    if (images.find(name + std::string(":")) == images.npos) continue;
    text += "  s-" + std::string(name) + ": {run: 'true', image: " + name + "}\n";
  }
  folder.write("workflow.yaml", text);
  NothingKnown nothing;
  FreshFileHashes hashes;
  Plan plan = make_plan(test::parsed(text, folder.path()), Profile(), {}, nothing, hashes);
  return collect(plan, {.with_images = with_images}, hashes);
}

std::vector<std::string> content_names(const Bundle& bundle) {
  std::vector<std::string> list;
  for (const BundleFile& file : bundle.files) list.push_back(file.name);
  return list;
}

std::string refusal(const TempDir& folder, const std::string& images) {
  return test::error_of([&] { collected(folder, images, true); });
}

/// The smallest valid image: an OCI layout with an index.
void write_layout(const TempDir& folder, const std::string& name) {
  const std::string manifest = "{}";
  folder.write(name + "/blobs/sha256/" + sha256_hex(manifest), manifest);
  folder.write(name + "/oci-layout", R"({"imageLayoutVersion": "1.0.0"})");
  folder.write(name + "/index.json", R"({"schemaVersion": 2, "manifests": [{"mediaType":
      "application/vnd.oci.image.manifest.v1+json", "size": 2, "digest": "sha256:)" +
                                         sha256_hex(manifest) + "\"}]}");
}

}  // namespace

TEST_CASE("an image is packed beside the workflow, with its own hash", "[bundle]") {
  const TempDir folder;
  write_layout(folder, "images/box");
  const Bundle bundle = collected(folder, R"(one: {from: "oci:images/box"})", true);
  const Digest digest = Digest::of_hex(sha256_hex("{}"));
  CHECK(bundle.manifest.images ==
        std::map<std::string, PackedImage>{{"one", {"oci:images/box", digest, true}}});
  std::vector<std::string> list = content_names(bundle);
  std::sort(list.begin(), list.end());
  CHECK(list == std::vector<std::string>{"workflow/images/box/blobs/sha256/" + sha256_hex("{}"),
                                         "workflow/images/box/index.json",
                                         "workflow/images/box/oci-layout",
                                         "workflow/workflow.yaml"});
}

TEST_CASE("an image above the workflow keeps its relative place", "[bundle]") {
  const TempDir folder;
  write_layout(folder, "box");
  const std::string text =
      "name: up\nimages: {one: {from: \"oci:../box\"}}\nsteps: {a: {run: 'true', image: one}}\n";
  folder.write("flows/workflow.yaml", text);
  NothingKnown nothing;
  FreshFileHashes hashes;
  const Bundle bundle = collect(
      make_plan(test::parsed(text, folder.path() / "flows"), Profile(), {}, nothing, hashes),
      {.with_images = true}, hashes);
  CHECK(bundle.manifest.workflow == "workflow/_/workflow.yaml");
  const std::vector<std::string> list = content_names(bundle);
  CHECK(std::count(list.begin(), list.end(), "workflow/box/index.json") == 1);
}

TEST_CASE("an unpacked image has the digest of the workflow, or the current one", "[bundle]") {
  const TempDir folder;
  write_layout(folder, "box");
  const std::string images = R"(one: {from: "docker://far/box:1", digest: ")" + kDigest.text() +
                             R"("}, three: {from: "oci:none"})";
  for (const bool with_images : {false, true}) {
    const Bundle bundle = collected(folder, images, with_images);
    CHECK(bundle.manifest.images ==
          std::map<std::string, PackedImage>{{"one", {"docker://far/box:1", kDigest, false}}});
    CHECK(content_names(bundle) == std::vector<std::string>{"workflow/workflow.yaml"});
  }
  const Bundle today = collected(folder, R"(one: {from: "oci:box"})", false);
  CHECK(today.manifest.images.at("one") ==
        PackedImage{"oci:box", Digest::of_hex(sha256_hex("{}")), false});
  CHECK_THAT(refusal(folder, R"(one: {from: "docker://far/box:1"})"),
             Catch::Contains("add its `digest:`"));
}

TEST_CASE("an image that cannot be packed is named", "[bundle]") {
  const TempDir folder;
  write_layout(folder, "box");
  fs::create_directories(folder.path() / "root/bin");
  CHECK_THAT(refusal(folder, "one: {from: \"oci:" + (folder.path() / "box").string() + "\"}"),
             Catch::Contains("workflow.yaml:2:") && Catch::Contains("is an absolute path"));
  CHECK_THAT(refusal(folder, R"(one: {from: "dir:root"})"),
             Catch::Contains("workflow.yaml:2:") &&
                 Catch::Contains("image 'one' is a root file system in a folder"));
  CHECK_THAT(refusal(folder, R"(one: {from: "oci:none"})"), Catch::Contains("image 'one': "));
}

TEST_CASE("a path of this machine ends where the shell or YAML ends it", "[machine_paths]") {
  const TempDir folder;
  const std::string here = folder.write("f", "").string();
  const auto found = [&](const std::string& line) {
    return machine_paths(collected(folder, "", false, "  a:\n    run: |\n      " + line + "\n"))
        .size();
  };
  for (const char* end : {"", " x", "\"", "'", "`", ",", ";", ":", "(", ")", "|", ">", "&", "#"}) {
    INFO(end);
    CHECK(found("x " + here + end) == 1);
  }
  for (const char* before :
       {" ", "\"", "'", "`", ",", ";", ":", "=", "(", "[", "{", ">", "|", "&"}) {
    INFO(before);
    CHECK(found("x" + std::string(before) + here) == 1);
  }
  CHECK(found("file://" + here) == 1);
  for (const char* before : {"a", ".", "/", "http:/", "http://", "-", "~"}) {
    INFO(before);
    CHECK(found("x" + std::string(before) + here) == 0);
  }
  CHECK(found("cat " + here + " " + here) == 2);
  CHECK(found("/bin/sh /usr/bin/env /etc/passwd /dev/null /proc/self /sys/kernel") == 0);
  CHECK(found("/ // / /nowhere/at/all") == 0);
}
