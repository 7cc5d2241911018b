#include "base/parse_json.h"

#include <filesystem>
#include <system_error>

#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using Catch::Contains;

namespace {

std::string nested(size_t depth, const std::string& open = "[", const std::string& close = "]") {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "0";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

}  // namespace

TEST_CASE("JSON is read to its depth limit, and no deeper", "[json]") {
  const JsonLimits limits{.max_depth = 5};
  CHECK(parse_json(nested(5), limits).dump() == nested(5));
  CHECK(parse_json(nested(6), limits).is_discarded());
  CHECK(parse_json(nested(6, "{\"a\":", "}"), limits).is_discarded());
  CHECK_THROWS_WITH(parse_json_or_throw(nested(6), "x.json", limits),
                    "x.json is nested deeper than 5 levels");
  CHECK(parse_json("[[],[],[[]],[]]", {.max_depth = 3}).size() == 4);
}

TEST_CASE("JSON nested a million levels deep is refused, whatever its brackets", "[json]") {
  const std::string text = GENERATE(nested(1'000'000), nested(1'000'000, "{\"a\":", "}"),
                                    std::string(1'000'000, '['), std::string(1'000'000, '{'));
  CHECK(parse_json(text).is_discarded());
  CHECK_THROWS_WITH(parse_json_or_throw(text, "x"), Contains("nested deeper than 256 levels"));
}

TEST_CASE("brackets within strings are not nested", "[json]") {
  const JsonLimits limits{.max_depth = 1};
  const std::string text = R"({"a[[[":"{{[\"[[\\"})";
  CHECK(parse_json(text, limits).at("a[[[") == R"({{["[[\)");
}

TEST_CASE("JSON that is too large is refused", "[json]") {
  CHECK(parse_json("[1,2]", {.max_bytes = 4}).is_discarded());
  CHECK_THROWS_WITH(parse_json_or_throw("[1,2]", "x", {.max_bytes = 4}), Contains("larger than"));
  const test::TempDir folder;
  CHECK_THROWS_WITH(read_json_file(folder.write("x.json", "[1,2]"), {.max_bytes = 4}),
                    Contains("too large"));
}

TEST_CASE("an error in JSON is reported in dlflow's words, not the library's", "[json]") {
  CHECK(parse_json("{").is_discarded());
  CHECK_THROWS_WITH(parse_json_or_throw("{", "x.json"),
                    Catch::StartsWith("x.json is not JSON: ") && !Contains("json.exception"));
  try {
    (void)Json::array().at(3);
    FAIL("at() takes what is not there");
  } catch (const Json::exception& error) {
    CHECK(reason_of(error) == "array index 3 is out of range");
  }
}

TEST_CASE("an error in a file names the file, as far as a line has room", "[json]") {
  const auto reason = [](const std::string& path) {
    return reason_of(std::filesystem::filesystem_error(
        "cannot increment", path, std::make_error_code(std::errc::filename_too_long)));
  };
  CHECK(reason("/data/deep") == "/data/deep: File name too long");
  const std::string deep = "/top" + std::string(5000, 'd') + "/end";
  CHECK(reason(deep).size() < 400);
  CHECK_THAT(reason(deep), Catch::StartsWith("/topd") && Catch::Contains("d/end: File name"));
}

TEST_CASE("append_dump writes the same text as dump", "[json]") {
  const Json value = Json::parse(R"({"": [], "a": {}, "b": [1, -2, 18446744073709551615, 1.5, 1e300,
      true, false, null], "c\u0001\"\\": "plain ~", "d": "\u007f", "e": "é\n", "f": [[{"g": ""}]]})");
  std::string text = "before";
  append_dump(text, value);
  CHECK(text == "before" + value.dump());
}
