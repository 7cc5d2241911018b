#include "engine/track/tensorboard.h"

#include <cstring>

#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::string_literals;

namespace {

const Time kStart = from_rfc3339("2026-11-21T08:00:00.000Z");

}  // namespace

TEST_CASE("crc32c gives Castagnoli's values", "[track]") {
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

TEST_CASE("an event file has the records that TensorBoard reads", "[track]") {
  const auto number = [](auto value) {  // little endian, as this machine
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  };
  const auto masked = [&](const std::string& bytes) {
    const uint32_t crc = crc32c(bytes);
    return number(((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
  };
  const auto record = [&](const std::string& event) {
    const std::string length = number(uint64_t(event.size()));
    return length + masked(length) + event + masked(event);
  };
  // A tag is the field's number times 8, plus 0 for a varint, 1 for a double, 2 for bytes, 5 for a
  // float. Of an event: 1 is the time, 2 the step, 3 the version, 5 the summary.
  const std::string version = "\x09" + number(1795248000.0) + "\x1A\x0D" + "brain.Event:2";
  const std::string value = "\x0A\x04loss\x15"s + number(0.5F);
  const std::string summary = "\x0A" + std::string(1, char(value.size())) + value;
  const std::string event = "\x09" + number(1795248000.0) + "\x10\xAC\x02" +  // 300
                            "\x2A" + std::string(1, char(summary.size())) + summary;
  CHECK(tensorboard_events(read_reported("{\"step\": 300, \"loss\": 0.5}\n"), kStart) ==
        record(version) + record(event));
}
