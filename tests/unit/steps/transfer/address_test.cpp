#include "steps/transfer/address.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;

TEST_CASE("an ssh address has user, host, port and path", "[address]") {
  const Address whole = parse_address("ssh://me@host.org:2222/data/a%20b");
  CHECK(whole.host == "me@host.org");
  CHECK(whole.port == 2222);
  CHECK(whole.place.path == "/data/a b");
  CHECK(parse_address("ssh://host/~/x").place.path == "./x");
  CHECK(parse_address("ssh://host/~/").place.path == ".");
  const Address numeric = parse_address("ssh://[::1]:22/x");
  CHECK(numeric.host == "[::1]");
  CHECK(numeric.port == 22);
}

TEST_CASE("the path of an rclone address is relative to its remote", "[address]") {
  CHECK(parse_address("rclone://archive/bucket/x").host == "archive");
  CHECK(parse_address("rclone://archive/bucket/x").place.path == "bucket/x");
  CHECK(parse_address("rclone://disk//data/x").place.path == "/data/x");
  CHECK(parse_address("rclone://archive/").place.is_folder);
}

TEST_CASE("the files of a folder have addresses of their own", "[address]") {
  const Address folder = parse_address("ssh://host/data/set/");
  CHECK(file_in(folder, "a/b c").url == "ssh://host/data/set/a/b%20c");
  CHECK(file_in(folder, "a/b c").place.path == "/data/set/a/b c");
  CHECK(file_in(folder, "x").place.is_file());
  CHECK(file_in(parse_address("file:///data/*.gz"), "x.gz").place.path == "/data/x.gz");
  CHECK(file_in(parse_address("rclone://r/"), "x").place.path == "x");
  CHECK(file_in(parse_address("file:///"), "x").place.path == "/x");
  CHECK(file_in(parse_address("ssh://h/run#1/"), "x").url == "ssh://h/run#1/x");
  CHECK(file_in(parse_address("https://h/set/?sig=1#top"), "x").url == "https://h/set/x?sig=1");
}
