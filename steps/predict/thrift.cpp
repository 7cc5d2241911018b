#include "steps/predict/thrift.h"

#include "base/error.h"
#include "base/varint.h"

namespace dlflow::steps {
namespace {

constexpr int kI32 = 5, kI64 = 6, kBinary = 8, kList = 9, kStruct = 12;

std::string varint(uint64_t value) {
  std::string bytes;
  append_varint(bytes, value);
  return bytes;
}

/// Small numbers of both signs are short.
std::string zigzag(int64_t value) { return varint(uint64_t(value) << 1 ^ uint64_t(value >> 63)); }

std::string binary(const std::string& text) { return varint(text.size()) + text; }

}  // namespace

void ThriftStruct::begin(int field, int type) {
  DLFLOW_CHECK(field > last_ && field - last_ < 16);
  bytes_.push_back(char((field - last_) << 4 | type));
  last_ = field;
}

void ThriftStruct::begin_list(int field, size_t size, int type) {
  begin(field, kList);
  if (size < 15) {
    bytes_.push_back(char(size << 4 | size_t(type)));
  } else {
    bytes_.push_back(char(0xf0 | type));
    bytes_ += varint(size);
  }
}

ThriftStruct& ThriftStruct::add(int field, int32_t value) {
  begin(field, kI32);
  bytes_ += zigzag(value);
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, int64_t value) {
  begin(field, kI64);
  bytes_ += zigzag(value);
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, const std::string& text) {
  begin(field, kBinary);
  bytes_ += binary(text);
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, const ThriftStruct& value) {
  begin(field, kStruct);
  bytes_ += value.bytes();
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, const std::vector<int32_t>& values) {
  begin_list(field, values.size(), kI32);
  for (const int32_t value : values) bytes_ += zigzag(value);
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, const std::vector<std::string>& texts) {
  begin_list(field, texts.size(), kBinary);
  for (const std::string& text : texts) bytes_ += binary(text);
  return *this;
}

ThriftStruct& ThriftStruct::add(int field, const std::vector<ThriftStruct>& values) {
  begin_list(field, values.size(), kStruct);
  for (const ThriftStruct& value : values) bytes_ += value.bytes();
  return *this;
}

}  // namespace dlflow::steps
