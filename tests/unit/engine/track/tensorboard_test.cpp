#include "engine/track/tensorboard.h"

#include "tests/support/catch.h"

using namespace dlflow;

namespace {

const Time kStart = from_rfc3339("2026-11-21T08:00:00.000Z");

}  // namespace

TEST_CASE("crc32c is Castagnoli's", "[track]") {
  CHECK(crc32c("123456789") == 0xE3069283U);  // the check value of RFC 3720's polynomial
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c("") == 0);
}

TEST_CASE("more lines add to the end of an event file and change nothing before it", "[track]") {
  const std::string lines =
      "{\"step\": 1, \"loss\": 3, \"lr\": 1}\n{\"step\": 2, \"loss\": 2, \"accuracy\": 0.5}\n";
  const std::string before = tensorboard_events(read_reported(lines), kStart);
  const std::string after =
      tensorboard_events(read_reported(lines + "{\"step\": 3, \"a\": 1, \"loss\": 1}\n"), kStart);
  CHECK(after.size() > before.size());
  CHECK(after.substr(0, before.size()) == before);
  CHECK(tensorboard_events({}, kStart).size() == 12 + 4 + 9 + 2 + 13);  // the version alone
}
