#include "base/units.h"

#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/not_finite.h"
#include "base/sha256.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace std::chrono_literals;

TEST_CASE("durations are read in all usual spellings", "[units]") {
  CHECK(parse_duration("90s") == 90s);
  CHECK(parse_duration("20m") == 20min);
  CHECK(parse_duration("1h30m") == 90min);
  CHECK(parse_duration("2d") == 48h);
  CHECK(parse_duration("04:00:00") == 4h);
  CHECK(parse_duration("00:10:30") == 630s);
  CHECK(parse_duration("1-1:30") == 25h + 30min);
  CHECK(parse_duration("1-12:00:00") == 36h);
  CHECK(parse_duration("1-12") == 36h);
  CHECK(parse_duration("0.5h") == 30min);
  CHECK(parse_duration("1.5d") == 36h);
  CHECK_THROWS_WITH(parse_duration("99999999h"),
                    "'99999999h' is too long: the maximum is 1000 years");
  for (const char* bad :
       {"", "20 parsecs", "20", "m", "1m1h", "-5s", "99999999999999999999s", "1:2:3:4"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_duration(bad), Error);
  }
}

TEST_CASE("minutes and seconds that could be hours and minutes are ambiguous", "[units]") {
  CHECK_THROWS_WITH(parse_duration("1:30"),
                    "'1:30' is ambiguous: it could be minutes or hours: "
                    "write 1m30s or 1h30m");
  CHECK(ambiguous_duration("0:01:30").empty());
  CHECK(ambiguous_duration("1-1:30").empty());
  CHECK(ambiguous_duration("a:b").empty());
}

TEST_CASE("words such as NaN stand for numbers that JSON lacks", "[not-finite]") {
  const std::string quoted = quote_not_finite(
      R"({"loss": NaN, "worst":-Infinity, "best": [Infinity], "text": "a \" NaN", "NaN": 1})");
  const Json json = Json::parse(quoted);
  CHECK(std::isnan(*number_of(json.at("loss"))));
  CHECK(*number_of(json.at("worst")) < 0);
  CHECK(std::isinf(*number_of(json.at("worst"))));
  CHECK(*number_of(json.at("best").at(0)) > 0);
  CHECK_FALSE(number_of(json.at("text")));
  CHECK(json.at("NaN") == 1);
  CHECK(quote_not_finite(R"({"unfinished": "NaN)") == R"({"unfinished": "NaN)");
}

TEST_CASE("sizes are read with decimal and binary units", "[units]") {
  CHECK(parse_size("512MiB") == 512u << 20);
  CHECK(parse_size("1.5 GB") == 1'500'000'000u);
  CHECK(parse_size("4096") == 4096u);
  for (const char* sixteen : {"16g", "16G", "16Gi", "16gib", "16 GiB"}) {
    CHECK(parse_size(sixteen) == uint64_t{16} << 30);
  }
  CHECK(parse_size("1T") == uint64_t{1} << 40);
  CHECK(parse_size("2gb") == 2'000'000'000u);
  for (const char* bad : {"", "GiB", "12 furlongs", "-1", "1.2.3", "1e99TiB"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_size(bad), Error);
  }
}

TEST_CASE("numbers are shown in a readable form", "[units]") {
  CHECK(format_duration(2s) == "0:02");
  CHECK(format_duration(3730s) == "1:02:10");
  CHECK(format_duration(51h) == "2-03:00:00");
  CHECK(format_size(30'931'288) == "29.5 MiB");
  CHECK(format_size(0) == "0 B");
  CHECK(format_count(3980) == "3,980");
  CHECK(format_count(1234567) == "1,234,567");
  CHECK(format_age(200s) == "3 min");
}

TEST_CASE("a time is unchanged after its conversion to text and back", "[clock]") {
  const Time time{std::chrono::milliseconds(1'795'248'000'123)};
  CHECK(to_rfc3339(time) == "2026-11-21T08:00:00.123Z");
  CHECK(from_rfc3339(to_rfc3339(time)) == time);
  CHECK_THROWS_AS(from_rfc3339("yesterday"), Error);
}

TEST_CASE("SHA-256 agrees with FIPS 180-2's examples", "[sha256]") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
