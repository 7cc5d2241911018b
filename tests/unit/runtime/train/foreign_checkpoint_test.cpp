#include "runtime/train/training_state.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/checkpoint/sample_checkpoint.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// A checkpoint with one tensor of six numbers, named `name`.
Checkpoint checkpoint_with(const test::TempDir& folder, const std::string& name) {
  const test::SampleCheckpoint sample(7);
  CheckpointContent content = sample.content();
  content.model = {tensor_view<float>(name, sample.shape, sample.weights)};
  return load_checkpoint(save_checkpoint(folder.path() / name, content, 1));
}

}  // namespace

TEST_CASE("a checkpoint whose model text asks for gigabytes is refused before allocation",
          "[checkpoint][attack]") {
  const test::TempDir folder;
  const Model model = parse_model(
      "name: huge\ninput: [1, 1, 1024]\n"
      "layers:\n"
      "  - flatten\n"
      "  - linear: {name: fc, features: 1000000}\n",
      "model.yaml");
  CHECK_THROWS_WITH(require_weights(checkpoint_with(folder, "w"), model),
                    Catch::Contains("fc.weight"));
  CHECK_THROWS_WITH(require_weights(checkpoint_with(folder, "fc.weight"), model),
                    Catch::Contains("has another shape than the model declares"));
}
