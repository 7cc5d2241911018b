#include "steps/checkpoint/checkpoint_step.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "base/handle.h"
#include "base/sha256.h"
#include "runtime/checkpoint/checkpoint.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"
#include "tests/unit/steps/step_fixture.h"

using namespace dlflow;
using namespace dlflow::runtime;
using dlflow::steps::checkpoint_main;
using test::SampleCheckpoint;
using test::StepFixture;
namespace fs = std::filesystem;

namespace {

/// Saves checkpoints of `steps`. Their accuracy is step / 1000, except for step 2, which has the
/// best.
void save(const fs::path& folder, std::initializer_list<uint64_t> steps) {
  for (const uint64_t step : steps) {
    SampleCheckpoint sample(step);
    if (step == 2) sample.metrics["accuracy"] = 0.99;
    save_checkpoint(folder, sample.content(), 99);
  }
}

/// The output of the step on `stream`, whose descriptor is `number`, before it ends with `status`.
std::string written_to(FILE* stream, int number, const StepFixture& step, int status) {
  const fs::path said = step.folder().write("said", "");
  std::fflush(stream);
  const FileDescriptor before(::dup(number));
  const FileDescriptor file(::open(said.c_str(), O_WRONLY));
  ::dup2(file.get(), number);
  const int ended = checkpoint_main();
  std::fflush(stream);
  ::dup2(before.get(), number);
  CHECK(ended == status);
  return read_file(said);
}

/// The error message of the step, which ends with 1.
std::string complaint_about(const Json& with) {
  const StepFixture step(with);
  const std::string said = written_to(stderr, 2, step, 1);
  CHECK_FALSE(fs::exists(step.outputs() / "outputs.json"));
  return said;
}

/// The output of the step on standard output; it has to succeed.
std::string said_by(const Json& with) { return written_to(stdout, 1, StepFixture(with), 0); }

void damage(const fs::path& step_folder) { fs::resize_file(step_folder / "model.safetensors", 5); }

}  // namespace

TEST_CASE("the best checkpoint is published with its metrics and exported", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3});
  const StepFixture step(
      {{"from", data.path()}, {"select", "max accuracy"}, {"export", "safetensors"}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 2);
  CHECK(step.summary()["accuracy"] == 0.99);
  CHECK(step.summary()["step"] == 2);
  const fs::path model = step.outputs() / "model.safetensors";
  CHECK(step.outputs_json() ==
        Json({{"checkpoint", {{"value", "checkpoint"}, {"from", data.path().string()}}},
              {"export", {{"value", "model.safetensors"}, {"sha256", sha256_file(model)}}}}));
  const SafetensorsMetadata metadata = Safetensors::open(model).metadata();
  CHECK(metadata.at("step") == "2");
  CHECK(metadata.at("model") == test::kSampleModel);
  CHECK(metadata.at("input") == "(B,3)");
  CHECK(metadata.at("classes") == R"(["no","yes"])");
  CHECK(metadata.at("normalization") == R"({"scale":[0.5],"shift":[-1]})");
}

TEST_CASE("an exported file has the counters that PyTorch's batch normalisation looks for",
          "[checkpoint step]") {
  const test::TempDir data;
  const SampleCheckpoint sample(7);
  CheckpointContent content = sample.content();
  content.info.model += "  - batch_norm: {name: bn}\n";
  save_checkpoint(data.path(), content, 1);
  const StepFixture step({{"from", data.path()}, {"export", "safetensors"}});
  REQUIRE(checkpoint_main() == 0);
  const Safetensors exported = Safetensors::open(step.outputs() / "model.safetensors");
  int64_t batches = 0;
  copy_elements<int64_t>(exported.at("bn.num_batches_tracked"), {&batches, 1});
  CHECK(batches == 7);
  CHECK(exported.at("bn.num_batches_tracked").shape.empty());
}

TEST_CASE("a network is exported as ONNX unless only a script defines it", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1});
  const StepFixture step({{"from", data.path()}, {"export", "onnx"}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(step.outputs_json().at("export").at("value") == "model.onnx");
  CHECK(read_file(step.outputs() / "model.onnx").find("w.weight") != std::string::npos);

  const SampleCheckpoint sample(2);
  CheckpointContent script = sample.content();
  script.info.model.clear();
  save_checkpoint(data.path() / "script", script, 1);
  CHECK_THAT(complaint_about({{"from", data.path() / "script"}, {"export", "onnx"}}),
             Catch::Contains("saved by a Python script"));
}

TEST_CASE("a model divided among ranks is not exported, but one with other divided states is",
          "[checkpoint step]") {
  const test::TempDir data;
  const SampleCheckpoint sample(1);
  CheckpointContent content = sample.content();
  content.state["sharded"] = {"optimizer"};
  save_checkpoint(data.path() / "optimizer", content, 1);
  content.state["sharded"] = {"optimizer", "model"};
  save_checkpoint(data.path() / "model", content, 1);
  const StepFixture step({{"from", data.path() / "optimizer"}, {"export", "safetensors"}});
  CHECK(checkpoint_main() == 0);
  CHECK_THAT(complaint_about({{"from", data.path() / "model"}, {"export", "safetensors"}}),
             Catch::Contains("is divided among ranks (.distcp files)"));
}

TEST_CASE("the best is chosen among several folders and single checkpoints", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path() / "a", {1, 2});
  save(data.path() / "b", {3, 7, 8});
  const StepFixture step(Json{{"from", {data.path() / "a", data.path() / "b" / "step-000007"}}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 7);
  CHECK_FALSE(fs::exists(step.outputs() / "model.safetensors"));
}

TEST_CASE("a damaged checkpoint is skipped", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3});
  damage(data.path() / "step-000003");
  const StepFixture step(Json{{"from", data.path()}, {"select", "latest"}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 2);
}

TEST_CASE("the chosen checkpoint is verified even without verify", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3});
  damage(data.path() / "step-000001");
  const StepFixture good(Json{{"from", data.path()}, {"verify", false}});
  CHECK(checkpoint_main() == 0);
  damage(data.path() / "step-000003");
  CHECK(checkpoint_main() == 1);
}

TEST_CASE("pruning keeps the newest and the chosen one", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3, 4, 5});
  const StepFixture step(Json{{"from", data.path()}, {"select", "max accuracy"}, {"prune", 2}});
  REQUIRE(checkpoint_main() == 0);
  std::vector<std::string> left;
  for (const fs::path& folder : list_checkpoints(data.path())) left.push_back(folder.filename());
  CHECK(left == std::vector<std::string>{"step-000002", "step-000004", "step-000005"});
}

TEST_CASE("an unusable source of checkpoints is an error, and nothing is published",
          "[checkpoint step]") {
  const test::TempDir data;
  save(data.path() / "good", {1});
  save(data.path() / "one", {1});
  damage(data.path() / "one" / "step-000001");
  make_directories(data.path() / "empty");
  const fs::path good = data.path() / "good";
  const std::vector<std::pair<Json, std::string>> bad = {
      {Json::object(), "from: must be a folder of checkpoints, or a list of folders"},
      {{{"from", data.path() / "one"}}, "; 1 damaged, named above"},
      {{{"from", data.path() / "empty"}}, "there is no valid checkpoint in"},
      {{{"from", data.path() / "none"}}, "from: there is no folder"},
      {{{"from", Json::array()}}, "from: names no folder"},
      {{{"from", 7}}, "from: must be a folder of checkpoints"},
      // These have a valid checkpoint, and fail for another reason.
      {{{"from", good}, {"select", "best"}}, "best"},
      {{{"from", good}, {"select", 1}}, "wrong type"},
      {{{"from", good}, {"export", "hdf5"}}, "export: \"hdf5\" is not a format"},
      {{{"from", good}, {"export", "Safetensors"}}, "is not a format; write safetensors"},
      {{{"from", good}, {"export", true}}, "is not a format; write safetensors"},
      {{{"from", good}, {"prune", 0}}, "prune: must be the number of checkpoints to keep"},
  };
  for (const auto& [with, reason] : bad) {
    CAPTURE(with.dump());
    CHECK_THAT(complaint_about(with), Catch::Contains(reason));
  }
  const StepFixture step(Json{{"from", good}});
  CHECK(checkpoint_main() == 0);
}

TEST_CASE("the step prints its choice with the reason, and the removed checkpoints",
          "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3});
  const std::string folder = data.path();
  CHECK(said_by({{"from", folder}}) ==
        "chose " + folder + "/step-000003 among 3: it is the latest\n");
  CHECK(said_by({{"from", folder}, {"select", "max accuracy"}}) ==
        "chose " + folder + "/step-000002 among 3: accuracy 0.99 is the largest\n");
  CHECK(said_by({{"from", folder}, {"select", "min accuracy"}, {"prune", 3}}) ==
        "chose " + folder + "/step-000001 among 3: accuracy 0.001 is the smallest\n");
  CHECK(said_by({{"from", folder}, {"prune", 1}}) == "chose " + folder +
                                                         "/step-000003 among 3: it is the latest\n"
                                                         "removed 2 older checkpoints\n");
}

TEST_CASE("a skipped checkpoint is named", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2});
  damage(data.path() / "step-000001");
  CHECK_THAT(said_by({{"from", data.path()}}), Catch::StartsWith("skipped: ") &&
                                                   Catch::Contains("step-000001") &&
                                                   Catch::Contains("among 1: it is the latest"));
}

TEST_CASE("another pass publishes again", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2});
  const StepFixture step({{"from", data.path()}, {"export", "safetensors"}});
  REQUIRE(checkpoint_main() == 0);
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 2);
}

TEST_CASE("the number of checkpoints to keep must be above 0", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1});
  for (const Json& prune : {Json(0), Json(-1), Json(1.5), Json("all")}) {
    CHECK_THAT(complaint_about({{"from", data.path()}, {"prune", prune}}),
               Catch::Contains("prune: must be the number of checkpoints to keep"));
  }
}
