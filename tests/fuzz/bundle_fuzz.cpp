#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "engine/share/bundle_summary.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/engine/share/bundles.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// What may be said of any bundle that was not refused.
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

}  // namespace

/// A bundle. Whatever it is, it is unpacked completely or leaves nothing behind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const test::TempDir folder;
  const fs::path bundle =
      folder.write("bundle", std::string(reinterpret_cast<const char*>(data), size));
  bool unpacked = false;
  try {
    BundleReader(bundle).unpack(folder.path() / "out");
    unpacked = true;
    to_text(summarize(bundle));
  } catch (const Error&) {
    // Refused, as most are.
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
  Manifest manifest = test::manifest_of(test::good_files());
  const std::string plain =
      test::zip_of(folder.path(), test::with_manifest(manifest, test::good_files()));
  std::vector<test::Packed> files = test::good_files();
  files.push_back({"run/run.json", R"({"run": "shared-12ab", "jobs": [{"job": "a"}]})"});
  manifest = test::manifest_of(files);
  manifest.run = "shared-12ab";
  return {plain, test::zip_of(folder.path(), test::with_manifest(manifest, files))};
}
