#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/file_writer.h"

namespace dlflow::steps {

/// A column of a Parquet file, in which every row has a value.
struct ParquetColumn {
  enum class Type { Int32, Int64, Float, Text, Floats };

  std::string name;
  Type type = Type::Float;
  size_t length = 1;  ///< of a row's list, of Floats
};

/// The values of a column in some rows that follow each other.
class ParquetValues {
 public:
  void add(int32_t value) { add_bytes(&value, sizeof value); }
  void add(int64_t value) { add_bytes(&value, sizeof value); }
  void add(float value) { add_bytes(&value, sizeof value); }
  void add(const std::string& text);
  void add(std::span<const float> list) { add_bytes(list.data(), list.size_bytes()); }

  const std::string& bytes() const { return bytes_; }

 private:
  void add_bytes(const void* data, size_t size);

  std::string bytes_;  ///< as PLAIN has them
};

/// Writes a Parquet file, uncompressed: https://parquet.apache.org/docs/file-format/.
class ParquetWriter {
 public:
  ParquetWriter(runtime::FileWriter& file, std::vector<ParquetColumn> columns);

  /// Adds `rows` rows. `columns` are their values, in the order of the file's columns; at most
  /// 2^31 - 1 bytes each.
  void write_rows(size_t rows, std::span<const ParquetValues> columns);

  /// Writes what readers begin with. Nothing may follow.
  void finish();

 private:
  struct Chunk {
    uint64_t offset = 0, size = 0;  ///< bytes, the page's header included
  };
  struct RowGroup {
    size_t rows = 0;
    std::vector<Chunk> chunks = {};  ///< of each column
  };

  void write(const std::string& bytes);

  runtime::FileWriter& file_;
  std::vector<ParquetColumn> columns_;
  std::vector<RowGroup> groups_;
  uint64_t written_ = 0;
};

}  // namespace dlflow::steps
