#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/bundle_summary.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/share/bundles.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Checks properties of any bundle that was not refused.
void check_unpacked(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  size_t num_files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    DLFLOW_CHECK(entry.is_regular_file() && !entry.is_symlink());
    const std::string name = entry.path().lexically_relative(folder).string();
    ++num_files;
    if (name == kManifestName) continue;
    DLFLOW_CHECK(sha256_file(entry.path()) == manifest.files.at(name).sha256);
  }
  DLFLOW_CHECK(num_files == manifest.files.size() + 1);
}

/// Builds a bundle with correct checksums, so that fuzzing reaches the readers behind them.
std::string packed(char kind, const std::string& input, const fs::path& folder) {
  std::vector<test::Packed> files = test::good_files();
  if (kind == 'm') {
    files.insert(files.begin(), {kManifestName, input});
    return test::zip_of(folder, files);
  }
  files.push_back({kind == 'r' ? "run/run.json" : "workflow/w.yaml", input});
  if (kind == 'w') files.erase(files.begin() + 1);
  Manifest manifest = test::manifest_of(files);
  if (kind == 'r') manifest.run = "shared-12ab";
  return test::zip_of(folder, test::with_manifest(manifest, files));
}

}  // namespace

/// The first byte gives the kind of the rest: 'z' a bundle, 'm' its manifest, 'r' its record of a
/// run, 'w' its workflow. Any bundle is unpacked completely or leaves nothing behind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const test::TempDir folder;
  const std::string input(data + 1, data + size);
  const std::string bytes = data[0] == 'z' ? input : packed(char(data[0]), input, folder.path());
  const fs::path bundle = folder.write("bundle", bytes);
  bool unpacked = false;
  try {
    BundleReader(bundle).unpack(folder.path() / "out");
    unpacked = true;
    to_text(summarize(bundle));
  } catch (const Error&) {
    // Most inputs are refused.
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    DLFLOW_CHECK(name == "bundle" || (unpacked && name == "out"));
  }
  if (unpacked) check_unpacked(folder.path() / "out");
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const test::TempDir folder;
  const Manifest manifest = test::manifest_of(test::good_files());
  const std::string run =
      R"({"run": "shared-12ab", "state": "failed", "jobs": [{"job": "a", "metrics": {"x": 1},
          "result": {}}]})";
  return {"z" + test::zip_of(folder.path(), test::with_manifest(manifest, test::good_files())),
          "m" + to_json(manifest).dump(), "r" + run, std::string("w") + test::kSharedWorkflow};
}
