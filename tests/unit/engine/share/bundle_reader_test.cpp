#include "engine/share/bundle_reader.h"

#include <unistd.h>

#include <functional>

#include "engine/share/bundle_summary.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/share/bundles.h"

using namespace dlflow;
using test::good_files;
using test::kSharedWorkflow;
using test::manifest_of;
using test::Packed;
using test::TempDir;
using test::with_manifest;
using test::zip_of;

namespace fs = std::filesystem;

namespace {

/// Returns BundleReader's refusal of these bytes, or "" if it unpacked them. Either nothing is left
/// beside the bundle, or the complete folder.
std::string refusal_of(const std::string& bytes) {
  const TempDir folder;
  const fs::path bundle = folder.write("inner/b.dlflow", bytes);
  std::string said;
  try {
    BundleReader(bundle).unpack(folder.path() / "inner/out");
  } catch (const Error& error) {
    said = error.what();
    CHECK(said.find(bundle.string()) != said.npos);
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    const fs::path name = entry.path().lexically_relative(folder.path());
    const bool expected = name == "inner" || name == "inner/b.dlflow" ||
                          (said.empty() && *std::next(name.begin()) == "out");
    CHECK(expected);
  }
  return said;
}

std::string refusal_of(const std::vector<Packed>& entries) {
  const TempDir folder;
  return refusal_of(zip_of(folder.path(), entries));
}

std::string good_bundle() {
  const TempDir folder;
  return zip_of(folder.path(), with_manifest(manifest_of(good_files()), good_files()));
}

/// Reads a good bundle with one more file, which the manifest lists as well.
std::string refusal_with(const Packed& file) {
  std::vector<Packed> files = good_files();
  files.push_back(file);
  Manifest manifest = manifest_of(good_files());
  if (path_is_safe(file.name)) manifest = manifest_of(files);
  return refusal_of(with_manifest(manifest, files));
}

/// Returns `text` with every occurrence of `from` replaced by `to`.
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

TEST_CASE("a valid bundle is unpacked completely, with its modes", "[bundle]") {
  const TempDir folder;
  const fs::path bundle = folder.write("b.dlflow", good_bundle());
  BundleReader(bundle).unpack(folder.path() / "out");
  CHECK(read_file(folder.path() / "out/workflow/w.yaml") == test::kSharedWorkflow);
  struct stat info {};
  REQUIRE(::stat((folder.path() / "out/workflow/a.sh").c_str(), &info) == 0);
  CHECK((info.st_mode & 0111) != 0);
  CHECK(unpacked_bundle(folder.path() / "out/workflow/w.yaml") == folder.path() / "out");
  CHECK_FALSE(unpacked_bundle(folder.path() / "out/workflow/a.sh"));
  CHECK(is_bundle(bundle));
  CHECK_FALSE(is_bundle(folder.path() / "out/workflow/w.yaml"));
}

TEST_CASE("a bundle is not unpacked into a folder with files", "[bundle]") {
  const TempDir folder;
  const fs::path bundle = folder.write("b.dlflow", good_bundle());
  folder.write("out/mine", "kept");
  CHECK_THROWS_WITH(BundleReader(bundle).unpack(folder.path() / "out"),
                    Catch::Contains("already exists"));
  CHECK(read_file(folder.path() / "out/mine") == "kept");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("names that lead elsewhere are refused", "[bundle]") {
  for (const std::string& name :
       {std::string("../out"), std::string("/tmp/x"), std::string("a/../../b"),
        std::string("workflow/./x"), std::string("workflow//x"), std::string("a\\b"),
        std::string("workflow/x\ny"), std::string("workflow/\xff"), std::string(".."),
        std::string("workflow/folder/"), std::string(300, 'x'), std::string("")}) {
    INFO(name);
    CHECK(refusal_with({name, "x"}).find("leads elsewhere") != std::string::npos);
  }
}

TEST_CASE("links, devices, pipes, folders and set-user-id files are refused", "[bundle]") {
  for (const unsigned mode :
       {unsigned(S_IFLNK | 0777), unsigned(S_IFCHR | 0644), unsigned(S_IFBLK | 0644),
        unsigned(S_IFIFO | 0644), unsigned(S_IFSOCK | 0644), unsigned(S_IFDIR | 0755),
        unsigned(S_IFREG | 04755), unsigned(S_IFREG | 02755), unsigned(S_IFREG | 01644),
        unsigned(S_IFREG | 0666), 0U}) {
    INFO(mode);
    CHECK(refusal_with({"workflow/x", "/etc/passwd", mode}).find("is not a plain file") !=
          std::string::npos);
  }
}

TEST_CASE("encrypted, duplicate or differently compressed entries are refused", "[bundle]") {
  CHECK_THAT(refusal_with({"workflow/x", "x", S_IFREG | 0644, Z_DEFLATED, 1}),
             Catch::Contains("encrypted"));
  CHECK_THAT(refusal_with({"workflow/x", "x", S_IFREG | 0644, 0}),
             Catch::Contains("is not compressed with deflate"));
  CHECK_THAT(refusal_with({"workflow/w.yaml", "name: other"}), Catch::Contains("occurs twice"));
}

TEST_CASE("a text is read from a bundle only if it is unchanged", "[bundle]") {
  const TempDir folder;
  const auto text_of = [&](Manifest manifest) {
    const fs::path bundle =
        folder.write("b.dlflow", zip_of(folder.path(), with_manifest(manifest, good_files())));
    return BundleReader(bundle).read_text("workflow/w.yaml");
  };
  Manifest manifest = manifest_of(good_files());
  CHECK(text_of(manifest) == test::kSharedWorkflow);
  manifest.files.at("workflow/w.yaml").sha256 = std::string(64, '0');
  CHECK_THROWS_WITH(
      text_of(manifest),
      Catch::Contains("'workflow/w.yaml' is not what was packed: its checksum differs"));
}

TEST_CASE("files and manifest must agree", "[bundle]") {
  const auto changed = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = manifest_of(good_files());
    change(manifest);
    return refusal_of(with_manifest(manifest, good_files()));
  };
  PackedFile extra{std::string(64, '0'), 1, false};
  CHECK(changed([](Manifest&) {}).empty());
  CHECK_THAT(changed([](Manifest& m) { m.files.erase("workflow/a.sh"); }),
             Catch::Contains("does not list"));
  CHECK_THAT(changed([&](Manifest& m) { m.files["workflow/b"] = extra; }),
             Catch::Contains("lacks files"));
  CHECK_THAT(changed([](Manifest& m) { m.files["workflow/a.sh"].sha256 = std::string(64, '0'); }),
             Catch::Contains("its checksum differs"));
  CHECK_THAT(changed([](Manifest& m) { m.files["workflow/a.sh"].bytes += 1; }),
             Catch::Contains("differs from"));
  CHECK_THAT(changed([](Manifest& m) { m.files["workflow/a.sh"].executable = false; }),
             Catch::Contains("differs from"));
  CHECK_THAT(changed([](Manifest& m) { m.name = "../elsewhere"; }),
             Catch::Contains("its name is not valid for a workflow"));
  CHECK_THAT(changed([](Manifest& m) { m.workflow = "../w.yaml"; }),
             Catch::Contains("it has no workflow"));
  CHECK_THAT(changed([](Manifest& m) {
               m.data.push_back({"file:///x", std::string(64, '1'), 1, true});
             }),
             Catch::Contains("declares file:///x"));
}

TEST_CASE("a bundle of an earlier version, which is an RO-Crate, is unpacked", "[bundle]") {
  std::vector<Packed> files = good_files();
  files.insert(files.begin(), {"ro-crate-metadata.json", "{\"@graph\": []}\n"});
  CHECK(refusal_of(with_manifest(manifest_of(files), files)).empty());
}

TEST_CASE("other files are not bundles", "[bundle]") {
  CHECK_THAT(refusal_of(std::string()),
             Catch::EndsWith(" is not a bundle of dlflow; `dlflow pack` makes bundles"));
  CHECK_THAT(refusal_of(std::string(test::kSharedWorkflow)),
             Catch::Contains("is not a bundle of dlflow"));
  CHECK_THAT(refusal_of(good_files()), Catch::Contains("not a bundle"));
  CHECK_THAT(refusal_of(std::vector<Packed>{{kManifestName, "{"}}), Catch::Contains("is not JSON"));
  CHECK_THAT(refusal_of(std::vector<Packed>{{kManifestName, "{\"format\": 2}"}}),
             Catch::Contains("newer dlflow"));
  CHECK_THAT(refusal_of(std::vector<Packed>{{kManifestName, "[]"}}), Catch::Contains("damaged"));
}

TEST_CASE("nothing stands before, between or after the entries", "[bundle]") {
  const std::string good = good_bundle();
  REQUIRE(refusal_of(good).empty());
  CHECK_FALSE(refusal_of("junk" + good).empty());
  CHECK_FALSE(refusal_of(good + "junk").empty());
  CHECK_FALSE(refusal_of(good + good).empty());
  const size_t second = good.find("PK\3\4", 1);
  const size_t directory = good.find("PK\1\2");
  for (const size_t place : {second, directory, good.size() - 22}) {
    std::string wider = good;
    wider.insert(place, "junk");
    CHECK_FALSE(refusal_of(wider).empty());
  }
  std::string commented = good + "a comment";
  commented[good.size() - 2] = 9;
  CHECK_FALSE(refusal_of(commented).empty());
}

TEST_CASE("a directory that disagrees with the entries is refused", "[bundle]") {
  const std::string good = good_bundle();
  const size_t directory = good.find("PK\1\2");
  const std::string entries = good.substr(0, directory);
  const std::string list = good.substr(directory);
  CHECK_FALSE(refusal_of(entries + replaced(list, "workflow/a.sh", "workflow/b.sh")).empty());
  CHECK_FALSE(refusal_of(replaced(entries, "workflow/a.sh", "workflow/b.sh") + list).empty());
  // The last entry has the offset of the previous one.
  std::string overlapping = good;
  const size_t last_line = good.rfind("PK\1\2");
  const size_t line_before = good.rfind("PK\1\2", last_line - 1);
  overlapping.replace(last_line + 42, 4, good.substr(line_before + 42, 4));
  CHECK_FALSE(refusal_of(overlapping).empty());
}

TEST_CASE("a bundle that was cut anywhere is refused", "[bundle]") {
  const std::string good = good_bundle();
  for (size_t bytes = 0; bytes < good.size(); bytes += 7) {
    CHECK_FALSE(refusal_of(good.substr(0, bytes)).empty());
  }
}

TEST_CASE("a bundle that would fill the disk is refused before anything is written", "[bundle]") {
  Manifest manifest = manifest_of(good_files());
  manifest.files["workflow/a.sh"].bytes = 0xe0000000;
  const TempDir folder;
  std::string bytes = zip_of(folder.path(), with_manifest(manifest, good_files()));
  const std::string size("\x15\0\0\0", 4);  // the size of a.sh, in both headers
  REQUIRE(good_files().front().content.size() == 0x15);
  const std::string name = "workflow/a.sh";
  for (size_t at = bytes.find(name); at != bytes.npos; at = bytes.find(name, at + 1)) {
    for (const size_t distance : {8U, 22U}) {  // from the name back to the unpacked size
      if (bytes.substr(at - distance, 4) == size) {
        bytes.replace(at - distance, 4, std::string("\0\0\0\xe0", 4));
      }
    }
  }
  CHECK_THAT(refusal_of(bytes), Catch::Contains("suspicious"));
}

TEST_CASE("a manifest nested a million levels deep is refused", "[bundle][attack]") {
  std::string text = to_json(manifest_of(good_files())).dump();
  const std::string set = R"("set":{})";
  REQUIRE(text.find(set) != text.npos);
  text.replace(
      text.find(set), set.size(),
      R"("set":{"a":)" + std::string(1'000'000, '[') + "0" + std::string(1'000'000, ']') + "}");
  std::vector<Packed> files = good_files();
  files.insert(files.begin(), {kManifestName, text});
  CHECK_THAT(refusal_of(files), Catch::Contains("is nested deeper than 64 levels"));
}

TEST_CASE("a bundle's image digest that is a path is refused", "[bundle][attack]") {
  Manifest manifest = manifest_of(good_files());
  const Digest digest = Digest::of_hex(std::string(64, 'a'));
  manifest.images["a"] = {"oci:a", digest, false};
  const std::string other = GENERATE("sha256:../../../canary", "");
  const std::string text = replaced(to_json(manifest).dump(), digest.text(), other);
  std::vector<Packed> files = good_files();
  files.insert(files.begin(), {kManifestName, text});
  CHECK_THAT(refusal_of(files), Catch::Contains(other.empty() ? "'a' has no" : "is not a digest"));
}

TEST_CASE("a manifest that another user put above a workflow is ignored", "[bundle][attack]") {
  if (::geteuid() != 0) return test::skip("only root can give a file away");
  const TempDir shared;
  const fs::path workflow = shared.write("mine/flows/w.yaml", kSharedWorkflow);
  Manifest manifest = manifest_of(good_files());
  manifest.workflow = "mine/flows/w.yaml";
  manifest.files["mine/flows/w.yaml"] = {sha256_hex(""), 0, false};
  const std::string good = to_json(manifest).dump();
  const fs::path above = shared.write("dlflow-bundle.json", good);
  CHECK(unpacked_bundle(workflow) == shared.path());

  const std::string text =
      GENERATE_COPY(as<std::string>(), good, std::string(1'000'000, '['), std::string("{"));
  write_file_atomic(above, text);
  SECTION("a file of another user") { REQUIRE(::chown(above.c_str(), 12345, 12345) == 0); }
  SECTION("in a folder of another user, whoever owns the file") {
    REQUIRE(::chown(shared.path().c_str(), 12345, 12345) == 0);
  }
  SECTION("a link to a file") {
    fs::rename(above, shared.path() / "elsewhere");
    fs::create_symlink("elsewhere", above);
  }
  CHECK_FALSE(unpacked_bundle(workflow).has_value());
}

TEST_CASE("a damaged manifest of the user's own is named", "[bundle]") {
  const TempDir folder;
  const fs::path workflow = folder.write("flows/w.yaml", kSharedWorkflow);
  const fs::path manifest = folder.write("dlflow-bundle.json", std::string(1'000'000, '['));
  CHECK_THROWS_WITH(unpacked_bundle(workflow),
                    Catch::StartsWith(manifest.string()) && Catch::Contains("nested deeper"));
}

TEST_CASE("text from a bundle cannot control a terminal", "[bundle][attack]") {
  const TempDir folder;
  Manifest manifest = manifest_of(good_files());
  manifest.dlflow = "0.1\033]0;title\a\u009b31m\u202e";
  const fs::path file =
      folder.write("b.dlflow", zip_of(folder.path(), with_manifest(manifest, good_files())));
  const std::string text = to_text(summarize(file));
  CHECK_THAT(text, Catch::Contains("by dlflow 0.1\\u001b]0;title\\u0007\\u009b31m\\u202e"));
}
