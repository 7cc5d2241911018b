#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"

using namespace dlflow;
using namespace dlflow::runtime;
namespace fs = std::filesystem;

namespace {

/// Returns `text` with its own hash, as at the end of a manifest, if it is a JSON object.
std::string with_own_hash(const std::string& text) {
  if (text.size() > 10'000) return text;  // too deep for this library
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return text;
  json.erase("sha256");
  json["sha256"] = sha256_hex(json.dump());
  return json.dump();
}

}  // namespace

/// The manifest of a checkpoint, with its own hash correct. All files that it lists must lie in the
/// checkpoint's folder.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const test::TempDir folder;
  const test::SampleCheckpoint sample(7);
  const fs::path saved = save_checkpoint(folder.path() / "c", sample.content(), 1);
  folder.write("secret.safetensors", "word");
  write_file_atomic(saved / "manifest.json", with_own_hash(std::string(data, data + size)));
  try {
    for (const auto& [name, tensors] : load_checkpoint(saved).further) {
      DLFLOW_CHECK(name.find('/') == name.npos && name != "secret");
    }
  } catch (const Error&) {
    // Most inputs are refused.
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  const test::TempDir folder;
  const test::SampleCheckpoint sample(7);
  const fs::path saved = save_checkpoint(folder.path(), sample.content(), 1);
  Json elsewhere = Json::parse(read_file(saved / "manifest.json"));
  elsewhere["files"]["../../secret.safetensors"] = {{"bytes", 4}, {"sha256", sha256_hex("word")}};
  return {read_file(saved / "manifest.json"), elsewhere.dump(), std::string(50'000, '[')};
}
