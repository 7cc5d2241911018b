#include "base/file.h"
#include "runtime/onnx/onnx_file.h"
#include "runtime/onnx/write_onnx.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("weights that are missing or do not fit the model are refused by name", "[export]") {
  const test::TempDir folder;
  const Model model = parse_model(
      "name: m\ninput: [3]\nlayers:\n  - linear: {name: scores, features: 2, bias: false}\n",
      "m.yaml");
  const std::vector<float> numbers(6, 1);
  const auto write = [&](const std::string& name, std::vector<uint64_t> shape) {
    std::filesystem::remove(folder.path() / "w");
    const std::vector<TensorView> tensors = {tensor_view<float>(name, std::move(shape), numbers)};
    write_safetensors(folder.path() / "w", tensors);
    write_onnx(folder.path() / "m.onnx", model, Safetensors::open(folder.path() / "w"), {{1}, {0}},
               {});
  };
  CHECK_THROWS_WITH(write("other.weight", {2, 3}), Catch::Contains("scores.weight"));
  CHECK_THROWS_WITH(write("scores.weight", {3, 2}),
                    Catch::Contains("'scores.weight' has another shape"));
  write("scores.weight", {2, 3});
  CHECK(read_file(folder.path() / "m.onnx").size() > sizeof(float) * numbers.size());
  const OnnxFile file = read_onnx_file(folder.path() / "m.onnx");
  REQUIRE_FALSE(file.nodes.empty());
  for (const OnnxNode& node : file.nodes) CHECK(node.name == node.outputs.at(0));
}
