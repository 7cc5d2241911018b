#include "engine/track/tensorboard.h"

#include "engine/track/protobuf.h"
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

TEST_CASE("a message is its fields' keys and values", "[track]") {
  CHECK(Message().add(1, uint64_t{150}).bytes() == std::string("\x08\x96\x01"));
  CHECK(Message().add(2, std::string_view("testing")).bytes() == std::string("\x12\x07testing"));
  CHECK(Message().add(3, Message().add(1, uint64_t{150})).bytes() ==
        std::string("\x1a\x03\x08\x96\x01"));
  CHECK(Message().add(16, uint64_t{1}).bytes() == std::string("\x80\x01\x01"));
  CHECK(Message().add(1, 1.0f).bytes() == std::string("\x0d\0\0\x80\x3f", 5));
  CHECK(Message().add(1, 1.0).bytes() == std::string("\x09\0\0\0\0\0\0\xf0\x3f", 9));
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
