#include "base/protobuf.h"

#include <vector>

#include "tests/support/catch.h"

using namespace dlflow;

TEST_CASE("a message is encoded as the keys and values of its fields", "[protobuf]") {
  CHECK(Message().add(1, uint64_t{150}).bytes() == std::string("\x08\x96\x01"));
  CHECK(Message().add(2, std::string_view("testing")).bytes() == std::string("\x12\x07testing"));
  CHECK(Message().add(3, Message().add(1, uint64_t{150})).bytes() ==
        std::string("\x1a\x03\x08\x96\x01"));
  const std::vector<int64_t> numbers = {3, 270, 86942};
  CHECK(Message().add(6, numbers).bytes() == std::string("\x32\x06\x03\x8e\x02\x9e\xa7\x05"));
  CHECK(Message().add(16, uint64_t{1}).bytes() == std::string("\x80\x01\x01"));
  CHECK(Message().add(1, 1.0f).bytes() == std::string("\x0d\0\0\x80\x3f", 5));
  CHECK(Message().add(1, 1.0).bytes() == std::string("\x09\0\0\0\0\0\0\xf0\x3f", 9));
}
