#include "runtime/train/trained_network.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/train/tiny_job.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

TrainedNetwork load(const std::filesystem::path& checkpoint) {
  ThreadGroup alone(1);
  return load_trained_network(alone.communicator(0), checkpoint, 4);
}

}  // namespace

TEST_CASE("a checkpoint contains its network", "[trained_network]") {
  const test::TempDir dir;
  const test::TrainingJob job = test::tiny_job(dir.path(), 1);
  CHECK(load(test::train_on(1, job)[0].checkpoint).model.text == job.model.text);
}

TEST_CASE("a checkpoint that a Python script saved is refused, since it has no network",
          "[trained_network]") {
  const test::TempDir dir;
  CheckpointContent content;
  content.info.step = 3;
  const auto checkpoint = save_checkpoint(dir.path(), content, 1);
  CHECK_THROWS_WITH(
      load(checkpoint),
      Catch::StartsWith("checkpoint: " + checkpoint.string() +
                        " was saved by a Python script, and only that script defines its network"));
}

TEST_CASE("tokens must come from the network's own tokenizer, if both are known",
          "[trained_network]") {
  const test::TempDir dir;
  TrainedNetwork network = load(test::train_on(1, test::tiny_job(dir.path(), 1))[0].checkpoint);
  Dataset dataset = test::tiny_dataset(2);
  const auto accept = [&](const std::string& trained, const std::string& packed) {
    network.tokenizer = trained;
    dataset.tokenizer = packed;
    require_same_tokens(network, dataset, "the text");
  };
  CHECK_NOTHROW(accept("a", "a"));
  CHECK_NOTHROW(accept("a", ""));
  CHECK_NOTHROW(accept("", "b"));
  CHECK_THROWS_WITH(accept("a", "b"),
                    Catch::StartsWith("the text: its tokens are from another tokenizer"));
}
