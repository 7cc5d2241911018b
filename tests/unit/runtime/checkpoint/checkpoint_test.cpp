#include "runtime/checkpoint/checkpoint.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
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

/// Writes `manifest` with its correct hash.
void write_manifest(const fs::path& step_folder, Json manifest) {
  manifest.erase("sha256");
  manifest["sha256"] = sha256_hex(manifest.dump());
  write_file_atomic(step_folder / "manifest.json", manifest.dump());
}

void flip_bit(const fs::path& path, size_t position) {
  std::string bytes = read_file(path);
  bytes.at(position) = char(bytes[position] ^ 1);
  write_file_atomic(path, bytes);
}

/// A checkpoint with additional tensors in a file `residuals`.
fs::path save_with_residuals(const fs::path& folder, const SampleCheckpoint& sample) {
  CheckpointContent content = sample.content();
  content.further["residuals"] = {tensor_view<float>("r", sample.shape, sample.momenta)};
  return save_checkpoint(folder, content, 2);
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
  const fs::path saved = save_with_residuals(folder.path(), sample);
  const Checkpoint loaded = load_checkpoint(saved);
  REQUIRE(loaded.further.size() == 1);
  std::vector<float> residuals(6);
  copy_elements<float>(loaded.further.at("residuals").at("r"), residuals);
  CHECK(residuals == sample.momenta);
  fs::resize_file(saved / "residuals.safetensors", 1);
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("residuals.safetensors has 1 bytes"));
}

TEST_CASE("a manifest is readable text", "[checkpoint]") {
  const test::TempDir folder;
  const fs::path saved = save_checkpoint(folder.path(), SampleCheckpoint(7).content(), 2);
  const std::string text = read_file(saved / "manifest.json");
  CHECK_THAT(text, Catch::StartsWith("{\n  \"") && Contains("\n  \"version\": ") &&
                       Catch::EndsWith("\n}\n"));
}

TEST_CASE("a manifest with files outside its folder is refused", "[checkpoint][attack]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(7);
  const fs::path saved = save_checkpoint(folder.path(), sample.content(), 2);
  folder.write("secret", "word");
  const std::string name = GENERATE(as<std::string>(), "../secret", "/etc/hostname", "..", ".", "",
                                    "a/b", std::string("state.json\0a", 12));
  Json manifest = Json::parse(read_file(saved / "manifest.json"));
  manifest["files"][name] = {{"bytes", 4}, {"sha256", sha256_hex("word")}};
  write_manifest(saved, std::move(manifest));
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("is not the name of a file in it"));
  CHECK_THROWS_WITH(read_checkpoint_info(saved), Contains("is not the name of a file in it"));
}

TEST_CASE("a manifest or a state nested a million levels deep is refused", "[checkpoint][attack]") {
  const test::TempDir folder;
  const fs::path saved = save_checkpoint(folder.path(), SampleCheckpoint(7).content(), 2);
  const std::string deep(1'000'000, '[');
  write_file_atomic(saved / "manifest.json", deep);
  CHECK_THROWS_AS(load_checkpoint(saved), Error);
}

TEST_CASE("a manifest without one of the files that every checkpoint has is refused",
          "[checkpoint]") {
  const test::TempDir folder;
  const fs::path saved = save_checkpoint(folder.path(), SampleCheckpoint(7).content(), 2);
  const std::string name = GENERATE("model.safetensors", "optimizer.safetensors", "state.json");
  Json manifest = Json::parse(read_file(saved / "manifest.json"));
  manifest["files"].erase(name);
  write_manifest(saved, std::move(manifest));
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("manifest.json does not list " + name));
}

TEST_CASE("a state that is not JSON is refused", "[checkpoint]") {
  const test::TempDir folder;
  const fs::path saved = save_checkpoint(folder.path(), SampleCheckpoint(7).content(), 2);
  write_file_atomic(saved / "state.json", "{");
  Json manifest = Json::parse(read_file(saved / "manifest.json"));
  manifest["files"]["state.json"] = {{"bytes", 1}, {"sha256", sha256_hex("{")}};
  write_manifest(saved, std::move(manifest));
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("state.json is not JSON"));
}

TEST_CASE("a verified checkpoint is mapped after a check of its lengths alone", "[checkpoint]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(7);
  const fs::path saved = save_checkpoint(folder.path(), sample.content(), 2);
  const fs::path weights = saved / "model.safetensors";
  flip_bit(weights, fs::file_size(weights) - 1);
  CHECK(map_checkpoint(saved).info == sample.content().info);
  CHECK_THROWS_WITH(load_checkpoint(saved), Contains("model.safetensors is damaged"));
  fs::resize_file(weights, fs::file_size(weights) - 1);
  CHECK_THROWS_WITH(map_checkpoint(saved), Contains("its manifest declares"));
  fs::remove(weights);
  CHECK_THROWS_WITH(map_checkpoint(saved), Contains("model.safetensors is missing: "));
}

TEST_CASE("the list of a checkpoint's files has all in its folder", "[checkpoint]") {
  const test::TempDir folder;
  const SampleCheckpoint sample(7);
  const fs::path saved = save_with_residuals(folder.path(), sample);
  const CheckpointFiles files = checkpoint_files(saved);
  std::vector<std::string> names;
  for (const fs::path& path : files.paths) {
    CHECK(path.parent_path() == saved);
    names.push_back(path.filename().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(names == names_in(saved));
  CHECK(files.sha256 == sha256_hex(read_file(saved / "manifest.json")));
}

TEST_CASE("a metric that is NaN is read back as NaN", "[checkpoint]") {
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

TEST_CASE("the best checkpoint is kept as long as another kept checkpoint names it",
          "[checkpoint]") {
  const test::TempDir folder;
  const auto save = [&](uint64_t step, std::optional<uint64_t> best) {
    const SampleCheckpoint sample(step);
    CheckpointContent content = sample.content();
    content.info.best = best;
    CHECK(read_checkpoint_info(save_checkpoint(folder.path(), content, 1)).best == best);
  };
  save(1, 1);
  save(2, 1);
  save(3, 1);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"latest", "step-000001", "step-000003"});
  save(4, 4);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"latest", "step-000004"});
  save(5, {});
  CHECK(names_in(folder.path()) == std::vector<std::string>{"latest", "step-000005"});
}

/// The name of a writer as in the document of the format: PLACE-PID-START.
std::string writer(pid_t pid, uint64_t start_ticks) {
  const std::string place =
      host_name() + "\n" + boot_id() + "\n" + fs::read_symlink("/proc/self/ns/pid").string();
  return sha256_hex(place).substr(0, 16) + "-" + std::to_string(pid) + "-" +
         std::to_string(start_ticks);
}

/// Makes `path` look as if it had not been written to for that long.
void set_age(const fs::path& path, std::chrono::seconds age) {
  const fs::file_time_type time = fs::file_time_type::clock::now() - age;
  for (const auto& entry : fs::directory_iterator(path)) fs::last_write_time(entry.path(), time);
  fs::last_write_time(path, time);
}

TEST_CASE("a file that another process may be writing stays until it is an hour old",
          "[checkpoint]") {
  const test::TempDir folder;
  const pid_t parent = ::getppid();  // alive, and not this process
  const std::string alive = "step-000009.tmp." + writer(parent, identify(parent)->start_ticks),
                    number_again = "step-000009.tmp." + writer(parent, 1),
                    own = "step-000009.tmp." + writer(::getpid(), 7) + ".new",
                    elsewhere = "step-000009.tmp.0123456789abcdef-1-5",
                    gone_elsewhere = "step-000009.tmp.0123456789abcdef-1-6",
                    older_version = "step-000009.tmp.77";
  for (const std::string& name :
       {alive, number_again, own, elsewhere, gone_elsewhere, older_version}) {
    folder.write(name + "/model.safetensors", "half");
    set_age(folder.path() / name,
            name == gone_elsewhere ? std::chrono::seconds(3700) : std::chrono::seconds(3000));
  }
  set_age(folder.path() / alive, std::chrono::seconds(10'000));
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 1);
  std::vector<std::string> stay = {"latest", "step-000001", alive, elsewhere, older_version};
  std::sort(stay.begin(), stay.end());
  CHECK(names_in(folder.path()) == stay);
}

TEST_CASE("the next checkpoint removes files of killed writers, and nothing else", "[checkpoint]") {
  const test::TempDir folder;
  const std::string dead = ".tmp." + writer(::getpid(), 1);
  folder.write("step-000009" + dead + "/model.safetensors", "half");
  folder.write("latest" + dead, "");
  folder.write("notes.txt", "mine");
  folder.write("step-1x/a", "");
  folder.write("step-/a", "");
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 1);
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{"latest", "notes.txt", "step-", "step-000001", "step-1x"});
}

TEST_CASE("checkpoints are listed in the order of their steps, whole or not", "[checkpoint]") {
  const test::TempDir folder;
  CHECK(list_checkpoints(folder.path() / "none").empty());
  for (const char* name : {"step-10", "step-000009", "step-2", "step-x", "step-3.tmp.1", "7"}) {
    make_directories(folder.path() / name);
  }
  CHECK(list_checkpoints(folder.path()) == std::vector<fs::path>{folder.path() / "step-2",
                                                                 folder.path() / "step-000009",
                                                                 folder.path() / "step-10"});
  CHECK_THROWS_WITH(list_checkpoints(folder.write("file", "")), Contains("cannot read "));
  CHECK(checkpoint_folder(folder.path(), 12) == folder.path() / "step-000012");
}

TEST_CASE("a checkpoint whose manifest cannot be read is skipped like a damaged one",
          "[checkpoint]") {
  const test::TempDir folder;
  const auto saved = save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 9);
  make_directories(folder.path() / "step-000002");
  fs::create_symlink("manifest.json", folder.path() / "step-000002/manifest.json");
  const LatestCheckpoint latest = latest_valid(folder.path());
  CHECK(latest.path == saved);
  REQUIRE(latest.rejected.size() == 1);
  CHECK_THAT(latest.rejected[0], Contains("step-000002/manifest.json"));
}

TEST_CASE("a manifest that another program formatted is checked by the hash of its bytes",
          "[checkpoint]") {
  const test::TempDir folder;
  const auto saved = save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 9);
  Json manifest = Json::parse(read_file(saved / "manifest.json"));
  const std::string zeros(64, '0');
  manifest["sha256"] = zeros;
  std::string text = manifest.dump();
  text.replace(text.find("0.001"), 5, "1e-03");  // the accuracy, as another program writes it
  const auto write = [&](const std::string& hash) {
    std::string whole = text;
    write_file_atomic(saved / "manifest.json", whole.replace(whole.find(zeros), 64, hash));
  };
  write(sha256_hex(text));
  CHECK(verify_checkpoint(saved).metrics.at("accuracy") == 0.001);
  write(sha256_hex(text + " "));
  CHECK_THROWS_WITH(verify_checkpoint(saved), Contains("its hash does not match"));
  write(sha256_hex(text).substr(1));
  CHECK_THROWS_WITH(verify_checkpoint(saved), Contains("its hash does not match"));
}

TEST_CASE("a damaged checkpoint is not counted among those kept", "[checkpoint]") {
  const test::TempDir folder;
  save_checkpoint(folder.path(), SampleCheckpoint(1).content(), 9);
  const auto torn = save_checkpoint(folder.path(), SampleCheckpoint(2).content(), 9);
  fs::resize_file(torn / "model.safetensors", 10);
  save_checkpoint(folder.path(), SampleCheckpoint(3).content(), 2);
  CHECK(verify_checkpoint(folder.path() / "step-000001").step == 1);
  fs::resize_file(folder.path() / "step-000003/manifest.json", 10);
  save_checkpoint(folder.path(), SampleCheckpoint(4).content(), 2);
  CHECK(verify_checkpoint(folder.path() / "step-000001").step == 1);
}

TEST_CASE("a new checkpoint is kept beside a damaged one with a higher number", "[checkpoint]") {
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

TEST_CASE("the search for the latest valid checkpoint skips torn ones and reports why",
          "[checkpoint]") {
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

TEST_CASE("a checkpoint of another version or program is refused with that reason",
          "[checkpoint]") {
  const test::TempDir folder;
  folder.write("step-1/manifest.json", R"({"format": "dlflow-checkpoint", "version": 2})");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("this is 2"));
  folder.write("step-1/manifest.json", R"({"format": "other"})");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("to another program"));
  folder.write("step-1/manifest.json", "[]");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("it is not a JSON object"));
  folder.write("step-1/manifest.json", R"({"format": 7, "version": 1})");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("to another program"));
  folder.write("step-1/manifest.json", "{}");
  CHECK_THROWS_WITH(load_checkpoint(folder.path() / "step-1"), Contains("is damaged: "));
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
