#include "runtime/checkpoint/safetensors.h"

#include <cmath>
#include <limits>

#include "base/file.h"
#include "base/sha256.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;

namespace {

/// A file of `header` and `num_data_bytes` zeros.
std::string file_of(const std::string& header, size_t num_data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(num_data_bytes, '\0');
}

Safetensors parse(const std::string& file) {
  return Safetensors::parse(std::as_bytes(std::span(file)), "f");
}

/// ",1" repeated `count` times.
std::string ones(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += ",1";
  return text;
}

std::string entry(const std::string& name, int begin, int end, const std::string& shape) {
  return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace

TEST_CASE("tensors come back bit for bit, each type aligned to its elements", "[safetensors]") {
  const test::TempDir folder;
  const std::vector<uint8_t> labels = {1, 2, 3};
  const std::vector<float> weights = {
      1.5F, -0.0F, std::numeric_limits<float>::denorm_min(), std::nanf("7"), INFINITY, 3.0F};
  const std::vector<double> scale = {0.1};
  const std::vector<int64_t> step = {-5};
  const std::vector<TensorView> tensors = {
      tensor_view<uint8_t>("labels", {3}, labels),
      tensor_view<float>("conv.weight", {2, 3}, weights), tensor_view<double>("scale", {}, scale),
      tensor_view<int64_t>("step", {1}, step),
      tensor_view<float>("none", {0, 4}, std::span<const float>())};
  const auto path = folder.path() / "t.safetensors";
  const WrittenFile written = write_safetensors(path, tensors, {{"format", "pt"}});
  CHECK(written.bytes == std::filesystem::file_size(path));
  CHECK(written.sha256 == sha256_file(path));

  const Safetensors file = Safetensors::open(path);
  CHECK(file.metadata() == SafetensorsMetadata{{"format", "pt"}});
  REQUIRE(file.tensors().size() == 5);
  CHECK(file.tensors().front().name == "conv.weight");
  for (const TensorView& tensor : tensors) {
    const TensorView& read = file.at(tensor.name);
    CHECK(read.dtype == tensor.dtype);
    CHECK(read.shape == tensor.shape);
    CHECK(
        std::equal(read.bytes.begin(), read.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
    CHECK(reinterpret_cast<uintptr_t>(read.bytes.data()) % element_size(read.dtype) == 0);
  }
}

TEST_CASE("the order in which tensors are given does not change the file", "[safetensors]") {
  const test::TempDir folder;
  const std::vector<float> one = {1};
  const std::vector<int32_t> two = {2};
  const auto a = tensor_view<float>("a", {1}, one);
  const auto b = tensor_view<int32_t>("b", {1}, two);
  CHECK(write_safetensors(folder.path() / "ab", std::vector{a, b}).sha256 ==
        write_safetensors(folder.path() / "ba", std::vector{b, a}).sha256);
}

TEST_CASE("a file without tensors can be written and read", "[safetensors]") {
  const test::TempDir folder;
  write_safetensors(folder.path() / "empty", {});
  CHECK(Safetensors::open(folder.path() / "empty").tensors().empty());
}

TEST_CASE("many tensors without elements share an offset", "[safetensors]") {
  const test::TempDir folder;
  std::vector<TensorView> tensors;
  for (int i = 0; i < 100; ++i) {
    tensors.push_back(tensor_view<float>(std::to_string(i), {0}, std::span<const float>()));
  }
  write_safetensors(folder.path() / "many", tensors);
  CHECK(Safetensors::open(folder.path() / "many").tensors().size() == 100);
}

TEST_CASE("tensors that could not be read back are not written", "[safetensors]") {
  const test::TempDir folder;
  const std::vector<float> two = {1, 2};
  const auto write = [&](const std::vector<TensorView>& tensors) {
    write_safetensors(folder.path() / "f", tensors);
  };
  CHECK_THROWS_WITH(write({tensor_view<float>("w", {3}, two)}), Contains("needs 12 bytes"));
  CHECK_THROWS_WITH(write({tensor_view<float>("w", {2}, two), tensor_view<float>("w", {2}, two)}),
                    Contains("this name occurs twice"));
  CHECK_THROWS_WITH(write({tensor_view<float>("__metadata__", {2}, two)}),
                    Contains("reserves this name"));
  CHECK_THROWS_WITH(write({tensor_view<float>("\xff", {2}, two)}), Contains("UTF-8"));
  CHECK_THROWS_WITH(write({tensor_view<float>("w", {uint64_t{1} << 63, 2}, two)}),
                    Contains("larger than any memory"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "f"));
}

TEST_CASE("elements are copied only into memory of their type and size", "[safetensors]") {
  const std::vector<float> three = {1, 2, 3};
  const TensorView tensor = tensor_view<float>("w", {3}, three);
  std::vector<float> copy(3);
  copy_elements<float>(tensor, copy);
  CHECK(copy == three);
  std::vector<float> short_copy(2);
  CHECK_THROWS_WITH(copy_elements<float>(tensor, short_copy), Contains("has 3 elements, expected"));
  std::vector<double> doubles(3);
  CHECK_THROWS_WITH(copy_elements<double>(tensor, doubles), Contains("type F32, expected F64"));
}

TEST_CASE("a missing tensor is named with the one that was probably meant", "[safetensors]") {
  const std::string file = file_of("{" + entry("conv1.weight", 0, 4, "[1]") + "}", 4);
  CHECK_THROWS_WITH(parse(file).at("conv1.wieght"),
                    "f has no tensor 'conv1.wieght'; did you mean 'conv1.weight'?");
  CHECK_THROWS_WITH(parse(file_of("{}", 0)).at("w"), "f has no tensor 'w'");
}

TEST_CASE("a header that does not describe its data is refused", "[safetensors]") {
  struct Case {
    std::string header;
    size_t num_data_bytes;
    std::string message;
  };
  const std::string good = entry("a", 0, 4, "[1]");
  const Case bad = GENERATE_COPY(values<Case>({
      {"", 0, "not JSON"},
      {"[]", 0, "a list in the wrong place"},
      {"7", 0, "a number in the wrong place"},
      {"{", 0, "not JSON at byte"},
      {"{} x", 0, "not JSON"},
      {"{" + good + "," + good + "}", 8, "'a' occurs twice"},
      {"{" + good + "}", 8, "4 bytes at its end belong to no tensor"},
      {"{" + good + "}", 3, "ends at byte 4 of 3"},
      {"{" + entry("a", 4, 8, "[1]") + "}", 8, "begins at byte 4 instead of 0"},
      {"{" + good + "," + entry("b", 2, 6, "[1]") + "}", 6, "begins at byte 2 instead of 4"},
      {"{" + entry("a", 4, 0, "[1]") + "}", 4, "ends at byte 0 of 4"},
      {"{" + entry("a", 0, 4, "[2]") + "}", 4, "has 4 bytes, but its shape needs 8"},
      {"{" + entry("a", 0, 0, "[9223372036854775808,9223372036854775808]") + "}", 0,
       "larger than any memory"},
      {"{" + entry("a", 0, 4, "[18446744073709551617]") + "}", 4, "not a 64-bit count"},
      {"{" + entry("a", 0, 4, "[-1]") + "}", 4, "a negative number"},
      {"{" + entry("a", 0, 4, "[1.0]") + "}", 4, "not a 64-bit count"},
      {"{" + entry("a", 0, 4, "[[1]]") + "}", 4, "a list in the wrong place"},
      {R"({"a":{"dtype":"F8","shape":[],"data_offsets":[0,1]}})", 1, "the type 'F8'"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "needs dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"shape":[1]}})", 4, "the key 'shape' twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "two data_offsets"},
      {R"({"a":{"dtype":"F32","size":1}})", 4, "the unknown key 'size'"},
      {R"({"__metadata__":{"a":1}})", 0, "a number in the wrong place"},
      {R"({"__metadata__":{"a":"x","a":"y"}})", 0, "the key 'a' twice"},
      {R"({"a":null})", 0, "a null"},
      {R"({"a":true})", 0, "true or false"},
      {R"({"a":"x"})", 0, "a string in the wrong place"},
      {R"({"a":7})", 0, "a number in the wrong place"},
      {R"({"a":{"dtype":{}}})", 0, "an object in the wrong place"},
      {R"({"a":{"dtype":7}})", 0, "a number in the wrong place"},
      {R"({"a":{"dtype":["F32"]}})", 0, "a list in the wrong place"},
      {R"({"a":{"dtype":"F32","shape":"x"}})", 0, "a string in the wrong place"},
      {R"({"a":{"dtype":"F32","shape":["x"]}})", 0, "a string in the wrong place"},
      {R"({"__metadata__":{"a":{}}})", 0, "an object in the wrong place"},
      {R"({"__metadata__":[]})", 0, "a list in the wrong place"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "two data_offsets"},
      {"{" + entry("a", 0, 4, "[1" + ones(64) + "]") + "}", 4, "too many dimensions"},
  }));
  CAPTURE(bad.header);
  CHECK_THROWS_WITH(parse(file_of(bad.header, bad.num_data_bytes)), Contains(bad.message));
}

TEST_CASE("metadata stays with its file, and an existing file is not overwritten",
          "[safetensors]") {
  const test::TempDir folder;
  const auto path = folder.path() / "t.safetensors";
  const std::vector<float> one = {1};
  write_safetensors(path, std::vector{tensor_view<float>("a", {1}, one)}, {{"dtype", "of no use"}});
  CHECK_THROWS_WITH(write_safetensors(path, {}), Contains("File exists"));
  const auto is_mapped = [&] {
    return read_file("/proc/self/maps").find(path.string()) != std::string::npos;
  };
  {
    const Safetensors file = Safetensors::open(path);
    CHECK(is_mapped());
    CHECK(file.metadata() == SafetensorsMetadata{{"dtype", "of no use"}});
    CHECK(file.at("a").dtype == DType::F32);
  }
  CHECK_FALSE(is_mapped());
  CHECK_THROWS_WITH(Safetensors::open(folder.path()), Contains("it is a folder"));
  CHECK_THROWS_WITH(Safetensors::open(folder.path() / "none"), Contains("cannot open "));
}

TEST_CASE("a tensor may have 64 dimensions", "[safetensors]") {
  const std::string shape = "[1" + ones(63) + "]";
  CHECK(parse(file_of("{" + entry("a", 0, 4, shape) + "}", 4)).at("a").shape.size() == 64);
}

TEST_CASE("each type has its name and the size of its elements", "[safetensors]") {
  const std::vector<std::pair<std::string, size_t>> types = {
      {"U8", 1}, {"F16", 2}, {"BF16", 2}, {"I32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8}};
  for (const auto& [type, size] : types) {
    const std::string header = R"({"a":{"dtype":")" + type + R"(","shape":[3],"data_offsets":[0,)" +
                               std::to_string(3 * size) + "]}}";
    const std::string file = file_of(header, 3 * size);
    const DType dtype = parse(file).at("a").dtype;
    CHECK(name(dtype) == type);
    CHECK(element_size(dtype) == size);
  }
}

TEST_CASE("a header is padded to whole words, so that the tensors after it are aligned",
          "[safetensors]") {
  const test::TempDir folder;
  const std::vector<float> one = {1};
  for (size_t length = 1; length <= 8; ++length) {
    const auto path = folder.path() / std::to_string(length);
    write_safetensors(path, std::vector{tensor_view<float>(std::string(length, 'n'), {1}, one)});
    const std::string bytes = read_file(path);
    CHECK(uint8_t(bytes[0]) % 8 == 0);
    CHECK(bytes.size() == size_t{8} + uint8_t(bytes[0]) + 4);
    CHECK(bytes.find("        ") == std::string::npos);  // no more padding than needed
  }
}

TEST_CASE("a header length beyond the file is refused before anything is read", "[safetensors]") {
  CHECK_THROWS_WITH(parse(""), Contains("only the beginning of one; in Python, ") &&
                                   Contains("dlflow.torch.weights NET.pt"));
  CHECK_THROWS_WITH(parse("1234567"), Contains("not a safetensors file"));
  std::string file = file_of("{}", 0);
  for (const char high : {'\x01', '\x7f', '\xff'}) {
    file[7] = high;
    CHECK_THROWS_WITH(parse(file), Contains("not a safetensors file"));
  }
  file = file_of("{}", 0);
  file[0] = 3;
  CHECK_THROWS_WITH(parse(file), Contains("only the beginning of one"));
  CHECK_THROWS_WITH(parse(file.substr(0, 8)), Contains("only the beginning of one"));
}
