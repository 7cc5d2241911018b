#include <algorithm>
#include <vector>

#include "runtime/collectives/direct_allreduce.h"
#include "tests/support/catch.h"

using namespace dlflow::runtime;

TEST_CASE("numbers are rounded for the wire, and arrive once", "[collectives]") {
  const DataType type = GENERATE(DataType::Float16, DataType::BFloat16);
  std::vector<float> sent = {1, 1 + 0x1p-20f, -3}, received(3), more(1);
  WireBuffer wire(type);
  const Values packed = wire.packed(std::span(sent));
  CHECK(packed.type == type);
  CHECK(packed.count == 3);
  const Values room = wire.room_for(std::span(received));
  CHECK(room.bytes().size() == 6);
  const Values room_for_more = wire.room_for(std::span(more));
  CHECK(room_for_more.bytes().size() == 2);
  std::ranges::copy(packed.bytes(), room.data);
  std::ranges::copy(packed.bytes().first(2), room_for_more.data);
  CHECK(received == std::vector<float>(3));
  wire.unpack();
  CHECK(received == std::vector<float>{1, 1, -3});
  CHECK(more == std::vector<float>{1});
  CHECK(sent[1] == 1 + 0x1p-20f);

  received[0] = 5;
  wire.unpack();
  CHECK(received[0] == 5);
}

TEST_CASE("numbers of the wire's type are sent without a copy", "[collectives]") {
  std::vector<float> numbers(3);
  WireBuffer wire(DataType::Float32);
  CHECK(wire.packed(std::span(numbers)).data == Values(std::span(numbers)).data);
  CHECK(wire.room_for(std::span(numbers)).data == Values(std::span(numbers)).data);
}
