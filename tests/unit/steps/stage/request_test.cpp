#include "steps/stage/request.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;

namespace {

Source parse_one(const Json& source) {
  return parse_sources(Json{{"sources", Json::array({source})}}).at(0);
}

}  // namespace

TEST_CASE("a source is called after its address unless it has a name", "[request]") {
  CHECK(parse_one({{"url", "https://host/d/train.gz?v=1#x"}}).name == "train.gz");
  CHECK(parse_one({{"url", "https://host/d/train.gz"}, {"unpack", "gzip"}}).name == "train");
  CHECK(parse_one({{"url", "http://host/a.tar.gz"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.tgz"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.zip"}, {"unpack", "zip"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a%20b"}}).name == "a b");
  CHECK(parse_one({{"url", "http://host/"}, {"name", "x"}}).name == "x");
}

TEST_CASE("a local address is a whole path, decoded", "[request]") {
  CHECK(parse_one({{"url", "file:///d/a%20b%zz%2"}}).file == "/d/a b%zz%2");
  CHECK(parse_one({{"url", "file://localhost/d/x?y"}}).file == "/d/x?y");
}

TEST_CASE("a declared hash may be in capitals", "[request]") {
  CHECK(parse_one({{"url", "file:///x"}, {"sha256", std::string(64, 'A')}}).sha256 ==
        std::string(64, 'a'));
}

TEST_CASE("every mistake in a source is named with the source", "[request]") {
  struct Case {
    Json source;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"text", "source number 1: needs a url:"},
      {{{"name", "x"}}, "source number 1: needs a url:"},
      {{{"url", 7}}, "url is a text, not 7"},
      {{{"url", "ftp://h/x"}}, "source ftp://h/x: is not an address that can be staged"},
      {{{"url", "data/x.gz"}}, "write file:///…"},
      {{{"url", "file://data/x.gz"}}, "three slashes"},
      {{{"url", "http://h/a b"}}, "no white space"},
      {{{"url", "http://h/x"}, {"sha256", "12"}}, "sha256: is 64 hexadecimal digits, not '12'"},
      {{{"url", "http://h/x"}, {"sha256", std::string(64, 'g')}}, "64 hexadecimal digits"},
      {{{"url", "http://h/x"}, {"unpack", "gzp"}}, "did you mean 'gzip'?"},
      {{{"url", "http://h/"}}, "is not a file name; give one"},
      {{{"url", "http://h/x"}, {"name", ".."}}, "'..' is not a file name"},
      {{{"url", "http://h/x"}, {"name", "a/b"}}, "'a/b' is not a file name"},
      {{{"url", "http://me:secret@h/x"}, {"name", "/"}}, "source http://h/x: name"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.source.dump());
    CHECK_THROWS_WITH(parse_one(bad.source), Contains(bad.message));
  }
  const Json twice = {{{"url", "http://h/x"}}, {{"url", "http://g/x"}}};
  CHECK_THROWS_WITH(parse_sources(Json{{"sources", twice}}),
                    Contains("another source is called 'x'"));
  CHECK_THROWS_WITH(parse_sources(Json{{"sources", Json::array()}}), Contains("at least one"));
  CHECK_THROWS_WITH(parse_sources(Json::object()), Contains("at least one"));
}

TEST_CASE("an address is shown without its password", "[request]") {
  CHECK(display_url("https://me:secret@host/p@th") == "https://host/p@th");
  CHECK(display_url("https://host/p@th?a@b") == "https://host/p@th?a@b");
  CHECK(display_url("no address") == "no address");
}
