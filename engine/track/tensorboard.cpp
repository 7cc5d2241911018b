#include "engine/track/tensorboard.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/protobuf.h"

namespace dlflow {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * 0x82F63B78U);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

void append_number(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes += char(value >> (8 * i));
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

void append_record(std::string& file, const Message& event) {
  std::string length;
  append_number(length, event.bytes().size(), 8);
  file += length;
  append_number(file, masked(crc32c(length)), 4);
  file += event.bytes();
  append_number(file, masked(crc32c(event.bytes())), 4);
}

struct Scalar {
  const std::string* name;
  const CurvePoint* point;
};

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = kTable[(crc ^ uint8_t(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string tensorboard_events(const Reported& reported, Time began) {
  std::string file;
  append_record(file,
                Message().add(1, unix_seconds(began)).add(3, std::string_view("brain.Event:2")));
  std::vector<Scalar> scalars;
  for (const Curve& curve : reported.curves) {
    for (const CurvePoint& point : curve.points) scalars.push_back({&curve.name, &point});
  }
  std::stable_sort(scalars.begin(), scalars.end(), [](const Scalar& a, const Scalar& b) {
    return a.point->line != b.point->line ? a.point->line < b.point->line : *a.name < *b.name;
  });
  for (const auto& [name, point] : scalars) {
    const Message value = Message().add(1, std::string_view(*name)).add(2, float(point->value));
    append_record(file, Message()
                            .add(1, unix_seconds(point->at.value_or(began)))
                            .add(2, uint64_t(std::llround(std::max(0.0, point->step))))
                            .add(5, Message().add(1, value)));
  }
  return file;
}

}  // namespace dlflow
