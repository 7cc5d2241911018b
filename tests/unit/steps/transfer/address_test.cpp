#include "steps/transfer/address.h"

#include "base/error.h"
#include "steps/transfer/hub.h"
#include "tests/support/catch.h"
#include "tests/support/variable.h"

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

TEST_CASE("an object store is a remote of rclone that needs no configuration", "[address]") {
  const test::Variable endpoint("AWS_ENDPOINT_URL", {});
  const Address s3 = parse_address("s3://bucket-1/set/a%20b");
  CHECK(s3.scheme == Scheme::Rclone);
  CHECK(s3.host == ":s3,provider=AWS,env_auth=true");
  CHECK(s3.place.path == "bucket-1/set/a b");
  CHECK(parse_address("s3://bucket/").place.is_folder);
  CHECK(file_in(parse_address("s3://bucket/set/"), "x").place.path == "bucket/set/x");
  CHECK(parse_address("gs://bucket/*.gz").host == ":gcs,env_auth=true");
  CHECK(parse_address("gs://bucket/*.gz").place.pattern == "*.gz");
  endpoint.set("http://store.site.org:9000");
  CHECK(parse_address("s3://b/x").host ==
        ":s3,provider=Other,env_auth=true,endpoint=\"http://store.site.org:9000\"");
  endpoint.set("http://x\",evil=\"");
  CHECK_THROWS_WITH(parse_address("s3://b/x"), Catch::Contains("has a quote in it"));
  endpoint.set({});
  CHECK_THROWS_AS(parse_address("s3://a,b=c/x"), Error);
  CHECK_THROWS_AS(parse_address("gs://-x/y"), Error);
}

TEST_CASE("a hub's address names a repository, an optional revision, and a path", "[address]") {
  const test::Variable endpoint("HF_ENDPOINT", "https://hub.test/");
  const Address model = parse_address("hf://owner/name/weights/model%201.bin");
  CHECK(model.scheme == Scheme::Hub);
  CHECK(model.host == "owner/name");
  CHECK(model.place.path == "weights/model 1.bin");
  CHECK(hub_url(model) == "https://hub.test/owner/name/resolve/main/weights/model%201.bin");
  const Address data = parse_address("hf://datasets/owner/name@v1.0/train/");
  CHECK(data.host == "datasets/owner/name@v1.0");
  CHECK(data.place.is_folder);
  CHECK(hub_url(file_in(data, "a/b.gz")) ==
        "https://hub.test/datasets/owner/name/resolve/v1.0/train/a/b.gz");
  CHECK(file_in(data, "a/b.gz").url == "hf://datasets/owner/name@v1.0/train/a/b.gz");
  CHECK(file_in(parse_address("hf://o/n/"), "x").place.path == "x");
  CHECK(parse_address("hf://o/n/*.json").place.pattern == "*.json");
  CHECK_THROWS_WITH(parse_address("hf://datasets/owner/name"),
                    Catch::Contains("names a repository and a file in it"));
  CHECK_THROWS_AS(parse_address("hf://owner/na?me/x"), Error);
}
