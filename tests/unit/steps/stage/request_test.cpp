#include "steps/stage/request.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;
using Catch::Contains;

namespace {

Source parse_one(const Json& source) {
  return parse_request(Json{{"sources", Json::array({source})}}).sources.at(0);
}

}  // namespace

TEST_CASE("a source is named after its address unless it has a name", "[request]") {
  CHECK(parse_one({{"url", "https://host/d/train.gz?v=1#x"}}).name == "train.gz");
  CHECK(parse_one({{"url", "https://host/d/train.gz"}, {"unpack", "gzip"}}).name == "train");
  CHECK(parse_one({{"url", "http://host/a.tar.gz"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.tgz"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.tar.zst"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.txz"}, {"unpack", "tar"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a.zip"}, {"unpack", "zip"}}).name == "a");
  CHECK(parse_one({{"url", "http://host/a%20b"}}).name == "a b");
  CHECK(parse_one({{"url", "http://host/"}, {"name", "x"}}).name == "x");
  CHECK(parse_one({{"url", "ssh://me@host/data/set/"}}).name == "set");
  CHECK(parse_one({{"url", "file:///data/*.gz"}}).name.empty());
  CHECK(
      parse_one({{"url", "git+https://host/me/code.git"}, {"commit", std::string(40, 'a')}}).name ==
      "code");
}

TEST_CASE("a local address is an absolute path, and is decoded", "[request]") {
  CHECK(parse_one({{"url", "file:///d/a%20b%zz%2"}}).address.place.path == "/d/a b%zz%2");
  CHECK(parse_one({{"url", "file://localhost/d/x%3Fy"}}).address.place.path == "/d/x?y");
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
      {{{"url", "ftp://h/x"}}, "source ftp://h/x: is not an address; write"},
      {{{"url", "data/x.gz"}}, "write file:///…"},
      {{{"url", "file://data/x.gz"}}, "three slashes"},
      {{{"url", "http://h/a b"}}, "no white space"},
      {{{"url", "http://h/x"}, {"sha256", "12"}},
       "sha256: must be 64 hexadecimal digits, not '12'"},
      {{{"url", "http://h/x"}, {"sha256", std::string(64, 'g')}}, "64 hexadecimal digits"},
      {{{"url", "http://h/x"}, {"unpack", "gzp"}}, "did you mean 'gzip'?"},
      {{{"url", "http://h/"}}, "is not a file name; give one"},
      {{{"url", "http://h/x"}, {"name", ".."}}, "'..' is not a file name"},
      {{{"url", "http://h/x"}, {"name", "a/b"}}, "'a/b' is not a file name"},
      {{{"url", "git+https://h/x.git"}}, "needs a commit: of 40 digits"},
      {{{"url", "git+file:///x"}, {"commit", "main"}},
       "commit: must be 40 hexadecimal digits, not 'main'"},
      {{{"url", "git+file:///x"}, {"commit", std::string(40, 'a')}, {"unpack", "tar"}},
       "the commit determines its files"},
      {{{"url", "git+file:///x"},
        {"commit", std::string(40, 'a')},
        {"manifest", {{"url", "http://h/s"}, {"sha256", std::string(64, 'a')}}}},
       "the commit determines its files"},
      {{{"url", "file:///x"}, {"commit", std::string(40, 'a')}}, "commit: is for git addresses"},
      {{{"url", "git+https://me:secret@h/x"}, {"commit", std::string(40, 'a')}},
       "source git+https://h/x: a password in it would be seen"},
      {{{"url", "file:///d/"}, {"sha256", std::string(64, 'a')}},
       "give the hashes of many in a manifest"},
      {{{"url", "file:///x"}, {"manifest", "sums"}}, "give one file its sha256"},
      {{{"url", "file:///x/"}, {"manifest", {{"url", "http://h/s"}}}},
       "the sha256: of what is there"},
      {{{"url", "ssh://-oProxyCommand=x/y"}}, "is not the name of a host"},
      {{{"url", "ssh://me:pw@h/y"}}, "has no password; use a key"},
      {{{"url", "ssh://h:port/y"}}, "'port' is not a port"},
      {{{"url", "rclone://:s3,env_auth/y"}}, "is not the name of a remote"},
      {{{"url", "http://me:secret@h/x"}, {"name", "/"}}, "source http://h/x: name"},
  };
  for (const Case& bad : cases) {
    CAPTURE(bad.source.dump());
    CHECK_THROWS_WITH(parse_one(bad.source), Contains(bad.message));
  }
  const Json twice = {{{"url", "http://h/x"}}, {{"url", "http://g/x"}}};
  CHECK_THROWS_WITH(parse_request(Json{{"sources", twice}}),
                    Contains("another source is called 'x'"));
  CHECK_THROWS_WITH(parse_request(Json{{"sources", Json::array()}}), Contains("at least one"));
  CHECK_THROWS_WITH(parse_request(Json::object()), Contains("at least one"));
  const Json one = {{{"url", "http://h/x"}}};
  CHECK_THROWS_WITH(parse_request(Json{{"sources", one}, {"parallel", 0}}),
                    Contains("1 or more, not 0"));
  CHECK(parse_request(Json{{"sources", one}, {"bandwidth", "10MB"}}).limits.share(1) == 10'000'000);
}
