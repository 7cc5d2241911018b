#include "runtime/onnx/onnx_file.h"

#include "base/error.h"
#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/onnx/onnx_graph.h"

using namespace dlflow;
using namespace dlflow::runtime;
using namespace std::string_literals;
using Catch::Contains;

namespace {

OnnxFile parsed(const std::vector<Message>& constants) {
  return parse_onnx(test::file_of({}, constants, {-1, 3}), ".");
}

/// A constant `c` of `count` numbers of ONNX's type `type`.
Message tensor(uint64_t type, int64_t count) {
  const std::vector<int64_t> shape = {count};
  return Message().add(1, std::span(shape)).add(2, type).add(8, std::string_view("c"));
}

OnnxTensor of_raw(uint64_t type, int64_t count, const std::string& bytes) {
  return parsed({tensor(type, count).add(9, std::string_view(bytes))}).constants.at("c");
}

OnnxTensor of_numbers(uint64_t type, int field, const std::vector<int64_t>& numbers) {
  return parsed({tensor(type, int64_t(numbers.size())).add(field, std::span(numbers))})
      .constants.at("c");
}

template <typename T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

}  // namespace

TEST_CASE("constants of every type are read from their bytes", "[onnx]") {
  CHECK(of_raw(1, 2, bytes_of<float>({1.5f, -2})).floats == Floats{1.5f, -2});
  CHECK(of_raw(11, 2, bytes_of<double>({1.5, -2})).floats == Floats{1.5f, -2});
  CHECK(of_raw(10, 2, "\x00\x3e\x00\xc0"s).floats == Floats{1.5f, -2});
  CHECK(of_raw(16, 2, "\xc0\x3f\x00\xc0"s).floats == Floats{1.5f, -2});
  CHECK(of_raw(7, 2, bytes_of<int64_t>({5, -7})).integers == Integers{5, -7});
  CHECK(of_raw(6, 2, bytes_of<int32_t>({5, -7})).integers == Integers{5, -7});
  CHECK(of_raw(3, 2, "\x05\xf9"s).integers == Integers{5, -7});
  CHECK(of_raw(2, 2, "\x05\xf9"s).integers == Integers{5, 249});
  CHECK(of_raw(9, 2, "\x01\x00"s).integers == Integers{1, 0});
  for (const uint64_t type : {1, 6, 7, 10, 11, 16}) {
    CHECK_THROWS_WITH(of_raw(type, 2, "\x01"), "constant 'c' ends within a number");
  }
}

TEST_CASE("constants of every type are read from their fields", "[onnx]") {
  const OnnxTensor doubles = parsed({tensor(11, 2).add(10, 1.5).add(10, -2.0)}).constants.at("c");
  CHECK(doubles.floats == Floats{1.5f, -2});
  const std::string packed = bytes_of<double>({1.5, -2});
  CHECK(parsed({tensor(11, 2).add(10, std::string_view(packed))}).constants.at("c").floats ==
        Floats{1.5f, -2});
  CHECK(parsed({tensor(1, 2).add(4, 1.5f).add(4, -2.0f)}).constants.at("c").floats ==
        Floats{1.5f, -2});
  CHECK(of_numbers(10, 5, {0x3e00, 0xc000}).floats == Floats{1.5f, -2});
  CHECK(of_numbers(16, 5, {0x3fc0, 0xc000}).floats == Floats{1.5f, -2});
  for (const uint64_t type : {2, 3, 6, 9}) {
    CHECK(of_numbers(type, 5, {1, 0}).integers == Integers{1, 0});
  }
  CHECK(of_numbers(7, 7, {5, -7}).integers == Integers{5, -7});
}

TEST_CASE("constants that contradict their header are refused", "[onnx]") {
  CHECK_THROWS_WITH(of_raw(8, 1, "x"), Contains("constant 'c' has numbers of ONNX's type 8;"));
  CHECK_THROWS_WITH(of_raw(1, 3, bytes_of<float>({1, 2})),
                    "constant 'c' has 2 numbers, but its shape asks for 3");
  CHECK_THROWS_WITH(parsed({tensor(1, -1)}), "constant 'c' has no valid shape");
  CHECK(parsed({tensor(1, 0)}).constants.at("c").size() == 0);
  const std::vector<int64_t> none = {int64_t{1} << 40, 0}, most = {2, int64_t{1} << 39},
                             more = {2, (int64_t{1} << 39) + 1};
  const auto of_shape = [](const std::vector<int64_t>& shape) {
    return parsed(
        {Message().add(1, std::span(shape)).add(2, uint64_t{1}).add(8, std::string_view("c"))});
  };
  CHECK(of_shape(none).constants.at("c").size() == 0);
  CHECK_THROWS_WITH(of_shape(most),
                    Contains("has 0 numbers, but its shape asks for 1099511627776"));
  CHECK_THROWS_WITH(of_shape(more), Contains("has no valid shape"));
}

TEST_CASE("unsupported parts of a file are reported", "[onnx]") {
  const Message graph =
      Message().add(11, test::port("x", {-1, 3})).add(12, test::port("y", {-1, 2}));
  const auto opset = [](const char* domain, uint64_t version) {
    return Message().add(1, std::string_view(domain)).add(2, version);
  };
  const auto file = [&](const Message& more) {
    return Message().add(7, graph).add(8, opset("", 17)).bytes() + more.bytes();
  };
  CHECK(parse_onnx(file({}), ".").operator_set == 17);
  CHECK(parse_onnx(file(Message().add(8, opset("com.microsoft", 1))), ".").operator_set == 17);
  CHECK(parse_onnx(file(Message().add(8, opset("ai.onnx", 18))), ".").operator_set == 18);
  CHECK_THROWS_WITH(parse_onnx(file(Message().add(25, Message())), "."),
                    Contains("functions of its own"));
  CHECK_THROWS_WITH(parse_onnx(Message().add(7, graph).bytes(), "."), "it has no network");
  CHECK_THROWS_WITH(parse_onnx(Message().add(8, opset("", 17)).bytes(), "."), "it has no network");
  const Message sparse = Message(graph).add(15, Message());
  CHECK_THROWS_WITH(parse_onnx(Message().add(7, sparse).add(8, opset("", 17)).bytes(), "."),
                    Contains("sparse constants"));
}

TEST_CASE("a setting with the type of a list is a list, even if it is empty", "[onnx]") {
  const auto setting_of = [](const Message& value) {
    const Message node = test::node("Op", {"x"}, "y")
                             .add(3, std::string_view("first"))
                             .add(5, Message(value).add(1, std::string_view("s")));
    const OnnxFile file = parse_onnx(test::file_of({node}, {}, {-1, 3}), ".");
    CHECK(file.nodes.at(0).name == "first");
    return file.nodes.at(0).settings.at("s");
  };
  const std::vector<int64_t> numbers = {4, 5};
  CHECK(std::get<Integers>(setting_of(Message().add(20, uint64_t{7}))).empty());
  CHECK(std::get<Floats>(setting_of(Message().add(20, uint64_t{6}))).empty());
  const Message empty_list = Message().add(20, uint64_t{7}).add(8, std::string_view());
  CHECK(std::get<Integers>(setting_of(empty_list)).empty());
  CHECK(std::get<int64_t>(setting_of(Message().add(20, uint64_t{2}))) == 0);
  CHECK(std::get<Integers>(setting_of(Message().add(8, std::span(numbers)))) == numbers);
  CHECK(std::get<Floats>(setting_of(Message().add(7, 1.5f).add(7, -2.0f))) == Floats{1.5f, -2});
  CHECK(std::get<float>(setting_of(Message().add(2, 1.5f))) == 1.5f);
  CHECK(std::get<std::string>(setting_of(Message().add(4, std::string_view("a")))) == "a");
}

TEST_CASE("an input that is also a constant does not count as an input", "[onnx]") {
  const Message weights = test::floats("w", {3, 2});
  const Message graph = Message()
                            .add(5, weights)
                            .add(11, test::port("w", {3, 2}))
                            .add(11, test::port("x", {-1, 3}))
                            .add(12, test::port("y", {-1, 2}));
  const OnnxFile file =
      parse_onnx(Message().add(7, graph).add(8, Message().add(2, uint64_t{17})).bytes(), ".");
  REQUIRE(file.inputs.size() == 1);
  CHECK(file.inputs[0].name == "x");
  CHECK(file.inputs[0].sizes == Integers{-1, 3});
  CHECK_FALSE(file.inputs[0].is_integer);
}

TEST_CASE("an error names the file and its fault", "[onnx]") {
  const test::TempDir folder;
  const auto damaged = folder.write("a.onnx", "\xff\xff");
  CHECK_THROWS_WITH(read_onnx_file(damaged),
                    Catch::StartsWith(damaged.string() + ": is not an ONNX file, or is damaged: "));
  const auto functions = folder.write("b.onnx", Message().add(25, Message()).bytes());
  CHECK_THROWS_WITH(read_onnx_file(functions),
                    Catch::StartsWith(functions.string() + ": the file defines functions"));
}
