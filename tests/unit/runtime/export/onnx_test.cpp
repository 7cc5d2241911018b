#include "runtime/export/onnx.h"

#include "base/file.h"
#include "runtime/export/protobuf.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;

TEST_CASE("a protobuf message has the bytes of its specification", "[export]") {
  ProtobufMessage inner;
  inner.add_integer(1, 150);
  CHECK(inner.bytes() == "\x08\x96\x01");
  ProtobufMessage message;
  message.add_bytes(2, "testing");
  message.add_message(3, inner);
  CHECK(message.bytes() == "\x12\x07testing\x1a\x03\x08\x96\x01");
  ProtobufMessage numbers;
  numbers.add_integers(6, std::vector<int64_t>{3, 270, 86942});
  CHECK(numbers.bytes() == "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
  ProtobufMessage negative;
  negative.add_integer(1, -1);
  CHECK(negative.bytes() == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  ProtobufMessage real;
  real.add_float(2, 1);
  CHECK(real.bytes() == std::string("\x15\0\0\x80\x3f", 5));
}

TEST_CASE("weights that are not there or do not fit the model are refused by name", "[export]") {
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
}
