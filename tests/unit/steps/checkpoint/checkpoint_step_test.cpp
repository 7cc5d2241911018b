#include "steps/checkpoint/checkpoint_step.h"

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

/// Checkpoints of `steps`; their accuracy is step / 1000, but that of step 2 is the best.
void save(const fs::path& folder, std::initializer_list<uint64_t> steps) {
  for (const uint64_t step : steps) {
    SampleCheckpoint sample(step);
    if (step == 2) sample.metrics["accuracy"] = 0.99;
    save_checkpoint(folder, sample.content(), 99);
  }
}

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
        Json({{"checkpoint", "checkpoint"},
              {"export", {{"value", "model.safetensors"}, {"sha256", sha256_file(model)}}}}));
  CHECK(Safetensors::open(model).metadata().at("step") == "2");
}

TEST_CASE("checkpoints of several folders and single ones compete", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path() / "a", {1, 2});
  save(data.path() / "b", {3, 7, 8});
  const StepFixture step(Json{{"from", {data.path() / "a", data.path() / "b" / "step-000007"}}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 7);
  CHECK_FALSE(fs::exists(step.outputs() / "model.safetensors"));
}

TEST_CASE("a damaged checkpoint is passed over", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path(), {1, 2, 3});
  damage(data.path() / "step-000003");
  const StepFixture step(Json{{"from", data.path()}, {"select", "latest"}});
  REQUIRE(checkpoint_main() == 0);
  CHECK(verify_checkpoint(step.outputs() / "checkpoint").step == 2);
}

TEST_CASE("without verify the chosen one is verified all the same", "[checkpoint step]") {
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

TEST_CASE("what cannot be chosen from is an error, and nothing is published", "[checkpoint step]") {
  const test::TempDir data;
  save(data.path() / "one", {1});
  damage(data.path() / "one" / "step-000001");
  make_directories(data.path() / "empty");
  const fs::path one = data.path() / "one";
  const std::vector<Json> bad = {
      Json::object(),
      {{"from", one}},
      {{"from", data.path() / "empty"}},
      {{"from", data.path() / "none"}},
      {{"from", Json::array()}},
      {{"from", 7}},
      {{"from", one}, {"select", "best"}},
      {{"from", one}, {"select", 1}},
      {{"from", one}, {"export", "onnx"}},
      {{"from", one}, {"prune", 0}},
  };
  for (const Json& with : bad) {
    const StepFixture step(with);
    CAPTURE(with.dump());
    CHECK(checkpoint_main() == 1);
    CHECK_FALSE(fs::exists(step.outputs() / "outputs.json"));
  }
}
