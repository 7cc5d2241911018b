#include "base/digest.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("only sha256: and 64 digits in lower case are a digest", "[digest]") {
  const std::string hex(64, 'a');
  CHECK(checked_digest("sha256:" + hex, "x") == "sha256:" + hex);
  CHECK(digest_hex("sha256:" + hex) == hex);
  const std::string wrong =
      GENERATE(as<std::string>{}, "", "sha256:", "sha256:../../../../out/canary",
               "sha256:" + std::string(63, 'a'), "sha256:" + std::string(65, 'a'),
               "sha256:" + std::string(64, 'A'), std::string(64, 'a'),
               "sha512:" + std::string(64, 'a'), "sha256:" + std::string(63, 'a') + "/",
               "sha256:" + std::string(63, 'a') + "\n", " sha256:" + std::string(64, 'a'));
  CHECK_FALSE(is_digest(wrong));
  CHECK_THROWS_WITH(checked_digest(wrong, "the index"), Catch::StartsWith("the index names '"));
  CHECK_THROWS_AS(digest_hex(wrong), Error);
}

TEST_CASE("a refused digest cannot control a terminal", "[digest]") {
  CHECK_THROWS_WITH(checked_digest("sha256:\033[2J", "x"), !Catch::Contains("\033"));
}
