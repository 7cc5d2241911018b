#include "steps/predict/parquet_writer.h"

#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/varint.h"
#include "steps/predict/thrift.h"

// Names and numbers of fields are those of parquet.thrift in apache/parquet-format. A row group has
// a chunk of each column, and a chunk here one page. Values are encoded as PLAIN.
namespace dlflow::steps {
namespace {

static_assert(std::endian::native == std::endian::little, "values are written as they are");

using Type = ParquetColumn::Type;

constexpr std::string_view kMagic = "PAR1";
constexpr int32_t kRequired = 0, kRepeated = 2;      // FieldRepetitionType
constexpr int32_t kPlain = 0, kRle = 3;              // Encoding
constexpr int32_t kUtf8 = 0, kListType = 3;          // ConvertedType
constexpr int kStringLogical = 1, kListLogical = 3;  // fields of LogicalType

int32_t physical_type(Type type) {
  switch (type) {
    case Type::Int32:
      return 1;
    case Type::Int64:
      return 2;
    case Type::Float:
    case Type::Floats:
      return 4;
    case Type::Text:
      return 6;
  }
  DLFLOW_CHECK(false);
}

std::vector<std::string> path_of(const ParquetColumn& column) {
  if (column.type != Type::Floats) return {column.name};
  return {column.name, "list", "element"};
}

/// The column's elements of the schema, which is a tree in depth-first order.
void append_schema(std::vector<ThriftStruct>& schema, const ParquetColumn& column) {
  if (column.type != Type::Floats) {
    ThriftStruct element;
    element.add(1, physical_type(column.type)).add(3, kRequired).add(4, column.name);
    if (column.type == Type::Text) {
      element.add(6, kUtf8).add(10, ThriftStruct().add(kStringLogical, ThriftStruct()));
    }
    schema.push_back(element);
    return;
  }
  schema.push_back(ThriftStruct()
                       .add(3, kRequired)
                       .add(4, column.name)
                       .add(5, int32_t(1))
                       .add(6, kListType)
                       .add(10, ThriftStruct().add(kListLogical, ThriftStruct())));
  schema.push_back(ThriftStruct().add(3, kRepeated).add(4, std::string("list")).add(5, int32_t(1)));
  schema.push_back(ThriftStruct()
                       .add(1, physical_type(column.type))
                       .add(3, kRequired)
                       .add(4, std::string("element")));
}

/// `count` times a level of one bit, in the hybrid of RLE and bit-packing.
void append_run(std::string& levels, size_t count, char level) {
  if (count == 0) return;
  append_varint(levels, uint64_t(count) << 1);
  levels.push_back(level);
}

std::string with_size(const std::string& levels) {
  const auto size = uint32_t(levels.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + levels;
}

/// Where lists begin, and that none is empty.
std::string levels_of_lists(size_t rows, size_t length) {
  std::string repetition, definition;
  for (size_t i = 0; i < rows; ++i) {
    append_run(repetition, 1, 0);
    append_run(repetition, length - 1, 1);
  }
  append_run(definition, rows * length, 1);
  return with_size(repetition) + with_size(definition);
}

std::string page_header(size_t values, size_t size) {
  const ThriftStruct data =
      ThriftStruct().add(1, int32_t(values)).add(2, kPlain).add(3, kRle).add(4, kRle);
  constexpr int32_t kDataPage = 0;
  return ThriftStruct()
      .add(1, kDataPage)
      .add(2, int32_t(size))
      .add(3, int32_t(size))
      .add(5, data)
      .bytes();
}

}  // namespace

void ParquetValues::add(const std::string& text) {
  const auto size = uint32_t(text.size());
  add_bytes(&size, sizeof size);
  bytes_ += text;
}

void ParquetValues::add_bytes(const void* data, size_t size) {
  bytes_.append(static_cast<const char*>(data), size);
}

ParquetWriter::ParquetWriter(runtime::FileWriter& file, std::vector<ParquetColumn> columns)
    : file_(file), columns_(std::move(columns)) {
  write(std::string(kMagic));
}

void ParquetWriter::write(const std::string& bytes) {
  file_.write(bytes);
  written_ += bytes.size();
}

void ParquetWriter::write_rows(size_t rows, std::span<const ParquetValues> columns) {
  DLFLOW_CHECK(columns.size() == columns_.size());
  RowGroup group = {.rows = rows};
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool is_list = columns_[i].type == Type::Floats;
    const size_t length = is_list ? columns_[i].length : 1;
    const std::string levels = is_list ? levels_of_lists(rows, length) : "";
    const size_t size = levels.size() + columns[i].bytes().size();
    DLFLOW_CHECK(size <= size_t(std::numeric_limits<int32_t>::max()));
    const uint64_t offset = written_;
    write(page_header(rows * length, size));
    write(levels);
    write(columns[i].bytes());
    group.chunks.push_back({offset, written_ - offset});
  }
  groups_.push_back(std::move(group));
}

void ParquetWriter::finish() {
  std::vector<ThriftStruct> schema = {
      ThriftStruct().add(4, std::string("schema")).add(5, int32_t(columns_.size()))};
  for (const ParquetColumn& column : columns_) append_schema(schema, column);
  std::vector<ThriftStruct> groups;
  int64_t total = 0;
  for (const RowGroup& group : groups_) {
    std::vector<ThriftStruct> chunks;
    int64_t bytes = 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const Chunk& chunk = group.chunks[i];
      const size_t length = columns_[i].type == Type::Floats ? columns_[i].length : 1;
      constexpr int32_t kUncompressed = 0;
      const ThriftStruct metadata = ThriftStruct()
                                        .add(1, physical_type(columns_[i].type))
                                        .add(2, std::vector<int32_t>{kPlain, kRle})
                                        .add(3, path_of(columns_[i]))
                                        .add(4, kUncompressed)
                                        .add(5, int64_t(group.rows * length))
                                        .add(6, int64_t(chunk.size))
                                        .add(7, int64_t(chunk.size))
                                        .add(9, int64_t(chunk.offset));
      chunks.push_back(ThriftStruct().add(2, int64_t(chunk.offset)).add(3, metadata));
      bytes += int64_t(chunk.size);
    }
    groups.push_back(ThriftStruct().add(1, chunks).add(2, bytes).add(3, int64_t(group.rows)));
    total += int64_t(group.rows);
  }
  constexpr int32_t kVersion = 1;
  const std::string footer = ThriftStruct()
                                 .add(1, kVersion)
                                 .add(2, schema)
                                 .add(3, total)
                                 .add(4, groups)
                                 .add(6, std::string("dlflow"))
                                 .bytes();
  write(footer);
  const auto size = uint32_t(footer.size());
  write(std::string(reinterpret_cast<const char*>(&size), sizeof size) + std::string(kMagic));
}

}  // namespace dlflow::steps
