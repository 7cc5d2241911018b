#include "runtime/checkpoint/checkpoint.h"

#include <cmath>
#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::SampleCheckpoint;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void flip_bit(const fs::path& path, size_t position) {
  std::string bytes = read_file(path);
  bytes.at(position) = char(bytes[position] ^ 1);
  write_file_atomic(path, bytes);
}

}  // namespace

TEST_CASE("a checkpoint comes back as it was saved", "[checkpoint]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(123);
  const fs::path saved = save_checkpoint(folder.path() / "new" / "ckpt", sample.content(), 2);
  CHECK(saved == folder.path() / "new" / "ckpt" / "step-000123");

  const Checkpoint loaded = load_checkpoint(saved);
  CHECK(loaded.info == sample.content().info);
  CHECK(loaded.state == sample.content().state);
  std::vector<float> weights(sample.weights.size());
  copy_elements<float>(loaded.model.at("w.weight"), weights);
  CHECK(weights == sample.weights);
  copy_elements<float>(loaded.optimizer.at("w.weight.momentum"), weights);
  CHECK(weights == sample.momenta);
  CHECK(fs::read_symlink(saved.parent_path() / "latest") == "step-000123");
}

TEST_CASE("further files of tensors are part of a checkpoint", "[checkpoint]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(7);
  CheckpointContent content = sample.content();
  content.further["residuals"] = {tensor_view<float>("r", sample.shape, sample.momenta)};
  const fs::path saved = save_checkpoint(folder.path(), content, 2);
  const Checkpoint loaded = load_checkpoint(saved);
  REQUIRE(loaded.further.size() == 1);
  std::vector<float> residuals(6);
  copy_elements<float>(loaded.further.at("residuals").at("r"), residuals);
  CHECK(residuals == sample.momenta);
  fs::resize_file(saved / "residuals.safetensors", 1);
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("residuals.safetensors has 1 bytes"));
}

TEST_CASE("a manifest whose files lie elsewhere is refused", "[checkpoint][attack]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(7);
  const fs::path saved = save_checkpoint(folder.path(), sample.content(), 2);
  folder.write("secret", "word");
  const std::string name = GENERATE("../secret", "/etc/hostname", "..", ".", "", "a/b");
  Json manifest = Json::parse(read_file(saved / "manifest.json"));
  manifest["files"][name] = {{"bytes", 4}, {"sha256", sha256_hex("word")}};
  manifest.erase("sha256");
  manifest["sha256"] = sha256_hex(manifest.dump());
  write_file_atomic(saved / "manifest.json", manifest.dump());
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("is no name of a file in it"));
  CHECK_THROWS_WITH(read_checkpoint_info(saved), Contains("is no name of a file in it"));
}

TEST_CASE("a manifest or a state nested a million levels deep is refused", "[checkpoint][attack]") {
  const test::TempDir folder;
  const fs::path saved = save_checkpoint(folder.path(), SampleCheckpoint(7).content(), 2);
  const std::string deep(1'000'000, '[');
  write_file_atomic(saved / "manifest.json", deep);
  CHECK_THROWS_AS(load_checkpoint(saved), Error);
}

TEST_CASE("a metric that is not a number stays one that is not", "[checkpoint]") {
  const test::TempDir folder;
  SampleCheckpoint sample(1);
  sample.metrics = {{"loss", NAN}, {"accuracy", 0.1}};
  const auto info = read_checkpoint_info(save_checkpoint(folder.path(), sample.content(), 1));
  CHECK(std::isnan(info.metrics.at("loss")));
  CHECK(info.metrics.at("accuracy") == 0.1);
}

TEST_CASE("only the newest checkpoints are kept, in the order of numbers", "[checkpoint]") {
  const test::TempDir folder;
  for (const uint64_t step : {9, 999'999, 1'000'000}) {
    save_checkpoint(folder.path(), SampleCheckpoint(step).content(), 2);
  }
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"latest", "step-1000000", "step-999999"});
  CHECK(latest_valid(folder.path()).path == folder.path() / "step-1000000");
  CHECK_THROWS_WITH(save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 0),
                    Contains("at least 1"));
}

TEST_CASE("a damaged checkpoint is not counted among those kept", "[checkpoint]") {
  const test::TempDir folder;
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 9);
  const auto torn = save_checkpoint(folder.path(), SampleCheckpoint(2).content(), 9);
  fs::resize_file(torn / "model.safetensors", 10);
  save_checkpoint(folder.path(), SampleCheckpoint(3).content(), 2);
  CHECK(verify_checkpoint(folder.path() / "step-000001").step == 1);
}

TEST_CASE("beside a newer one that is damaged, what was just saved is kept", "[checkpoint]") {
  const test::TempDir folder;
  const auto damaged = save_checkpoint(folder.path(), SampleCheckpoint(2).content(), 9);
  flip_bit(damaged / "model.safetensors", fs::file_size(damaged / "model.safetensors") - 1);
  const auto saved = save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 1);
  CHECK(verify_checkpoint(saved).step == 1);
  CHECK(latest_valid(folder.path()).path == saved);
}

TEST_CASE("a step is saved once, and again if it is damaged", "[checkpoint]") {
  const test::TempDir folder;
  SampleCheckpoint sample(5);
  const auto saved = save_checkpoint(folder.path(), sample.content(), 1);
  const std::string manifest = read_file(saved / "manifest.json");
  sample.metrics["loss"] = 7;
  save_checkpoint(folder.path(), sample.content(), 1);
  CHECK(read_file(saved / "manifest.json") == manifest);

  flip_bit(saved / "model.safetensors", fs::file_size(saved / "model.safetensors") - 1);
  save_checkpoint(folder.path(), sample.content(), 1);
  CHECK(verify_checkpoint(saved).metrics.at("loss") == 7);
}

TEST_CASE("any changed bit of any file is detected", "[checkpoint]") {
  const test::TempDir folder;
  const auto saved = save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 1);
  for (const auto& entry : fs::directory_iterator(saved)) {
    for (size_t position = 0; position < entry.file_size(); ++position) {
      flip_bit(entry.path(), position);
      CAPTURE(entry.path(), position);
      REQUIRE_THROWS_AS(load_checkpoint(saved), Error);
      flip_bit(entry.path(), position);
    }
  }
  CHECK(load_checkpoint(saved).info.step == 1);
}

TEST_CASE("the latest valid checkpoint passes over torn ones and says why", "[checkpoint]") {
  const test::TempDir folder;
  CHECK_FALSE(latest_valid(folder.path() / "none").path.has_value());
  for (const uint64_t step : {1, 2, 3, 4}) {
    save_checkpoint(folder.path(), SampleCheckpoint(step).content(), 9);
  }
  fs::remove(folder.path() / "step-000004/manifest.json");
  flip_bit(folder.path() / "step-000003/state.json", 3);
  fs::resize_file(folder.path() / "step-000002/optimizer.safetensors", 1);
  make_directories(folder.path() / "step-000009.tmp.77");
  folder.write("step-notes.txt", "");

  const LatestCheckpoint latest = latest_valid(folder.path());
  CHECK(latest.path == folder.path() / "step-000001");
  REQUIRE(latest.rejected.size() == 3);
  CHECK_THAT(latest.rejected[0], Contains("step-000004 is not a checkpoint: it has no manifest"));
  CHECK_THAT(latest.rejected[1], Contains("step-000003/state.json is damaged: its SHA-256"));
  CHECK_THAT(latest.rejected[2], Contains("step-000002/optimizer.safetensors has 1 bytes"));
}

TEST_CASE("a checkpoint of another version or program says so", "[checkpoint]") {
  const test::TempDir folder;
  folder.write("step-1/manifest.json", R"({"format": "dlflow-checkpoint", "version": 2})");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("this is 2"));
  folder.write("step-1/manifest.json", R"({"format": "other"})");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("of another program"));
  CHECK_THROWS_WITH(load_checkpoint(folder.path()), Contains("is not a checkpoint"));
}

TEST_CASE("a checkpoint that cannot be written leaves the one before", "[checkpoint]") {
  const test::TempDir folder;
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 1);
  SampleCheckpoint bad(2);
  bad.shape = {999};
  CHECK_THROWS_WITH(save_checkpoint(folder.path(), bad.content(), 1),
                    Contains("tensor 'w.weight'"));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"latest", "step-000001"});
  CHECK(latest_valid(folder.path()).path == folder.path() / "step-000001");
}
