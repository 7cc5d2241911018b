#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlflow::steps {

/// A struct in Thrift's compact protocol, in which Parquet has its metadata:
/// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md.
/// Fields are added in the order of their numbers.
class ThriftStruct {
 public:
  ThriftStruct& add(int field, int32_t value);
  ThriftStruct& add(int field, int64_t value);
  ThriftStruct& add(int field, const std::string& text);
  ThriftStruct& add(int field, const ThriftStruct& value);
  ThriftStruct& add(int field, const std::vector<int32_t>& values);
  ThriftStruct& add(int field, const std::vector<std::string>& texts);
  ThriftStruct& add(int field, const std::vector<ThriftStruct>& values);

  std::string bytes() const { return bytes_ + '\0'; }

 private:
  void begin(int field, int type);
  void begin_list(int field, size_t size, int type);

  std::string bytes_;
  int last_ = 0;
};

}  // namespace dlflow::steps
