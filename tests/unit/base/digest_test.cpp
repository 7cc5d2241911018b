#include "base/digest.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("only sha256: and 64 digits in lower case are a digest", "[digest]") {
  const std::string hex(64, 'a');
  const Digest digest("sha256:" + hex, "x");
  CHECK(digest.text() == "sha256:" + hex);
  CHECK(digest.hex() == hex);
  CHECK(digest == Digest::of_hex(hex));
  CHECK(Json(digest) == "sha256:" + hex);
  CHECK(Json(digest).get<Digest>() == digest);
  const std::string wrong =
      GENERATE(as<std::string>{}, "sha256:", "sha256:../../../../out/canary",
               "sha256:" + std::string(63, 'a'), "sha256:" + std::string(65, 'a'),
               "sha256:" + std::string(64, 'A'), std::string(64, 'a'),
               "sha512:" + std::string(64, 'a'), "sha256:" + std::string(63, 'a') + "/",
               "sha256:" + std::string(63, 'a') + "\n", " sha256:" + std::string(64, 'a'));
  CHECK_FALSE(Digest::accepts(wrong));
  CHECK_THROWS_WITH(Digest(wrong, "the index"), Catch::StartsWith("the index: '"));
  CHECK_THROWS_WITH(Json(wrong).get<Digest>(), Catch::Contains("is not a digest"));
}

TEST_CASE("an absent digest is an empty text in JSON and no path", "[digest]") {
  const Digest none;
  CHECK(Json(none) == "");
  CHECK(Json("").get<Digest>().empty());
  CHECK_THROWS_AS(none.hex(), Error);
  CHECK_THROWS_AS(Digest("", "x"), Error);
}

TEST_CASE("a refused digest cannot control a terminal", "[digest]") {
  CHECK_THROWS_WITH(Digest("sha256:\033[2J", "x"), !Catch::Contains("\033"));
}
