#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "steps/predict/answer.h"
#include "steps/predict/formats.h"
#include "steps/predict/parquet_writer.h"

namespace dlflow::steps {
namespace {

using Type = ParquetColumn::Type;

/// Of a row group, which is in memory while it is made; the bytes of one of its columns.
constexpr size_t kMostBytes = 32 << 20, kMostRows = 1 << 16;

template <typename T>
void append(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T take(std::string_view& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::vector<float> take_floats(std::string_view& bytes, size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), bytes.data(), count * sizeof(float));
  bytes.remove_prefix(count * sizeof(float));
  return values;
}

/// A row of a rank is the sample's number, then its label or targets, then its scores.
class ParquetFile : public PredictionFile {
 public:
  std::string name() const override { return "predictions.parquet"; }

  void write(runtime::FileWriter& file, size_t /*samples*/,
             std::span<const std::string_view> parts) const override {
    ParquetWriter writer(file, columns());
    Group group = new_group();
    for (std::string_view part : parts) {
      for (; !part.empty(); part.remove_prefix(row_size())) {
        add_row(group.values, part.substr(0, row_size()));
        ++group.rows;
        if (!is_full(group)) continue;
        writer.write_rows(group.rows, group.values);
        group = new_group();
      }
    }
    if (group.rows > 0) writer.write_rows(group.rows, group.values);
    writer.finish();
  }

 private:
  struct Group {
    size_t rows = 0;
    std::vector<ParquetValues> values;  ///< of each column
  };

  Group new_group() const { return {0, std::vector<ParquetValues>(columns().size())}; }

  /// Names of classes may be long, and a column has a limit.
  static bool is_full(const Group& group) {
    return group.rows == kMostRows ||
           std::ranges::any_of(group.values, [](const ParquetValues& values) {
             return values.bytes().size() >= kMostBytes;
           });
  }

  virtual std::vector<ParquetColumn> columns() const = 0;
  virtual size_t row_size() const = 0;
  virtual void add_row(std::vector<ParquetValues>& values, std::string_view row) const = 0;
};

class ParquetOfClasses : public ParquetFile {
 public:
  ParquetOfClasses(const runtime::Model& model, std::vector<std::string> classes)
      : num_classes_(size_t(model.num_scores())), classes_(std::move(classes)) {}

  std::string rows(const runtime::Prediction& prediction) const override {
    std::string rows;
    for (size_t i = 0; i < prediction.labels.size(); ++i) {
      append(rows, int64_t(prediction.first + i));
      append(rows, prediction.labels[i]);
      const auto scores = prediction.scores.subspan(i * num_classes_, num_classes_);
      rows.append(reinterpret_cast<const char*>(scores.data()), scores.size_bytes());
    }
    return rows;
  }

 private:
  std::vector<ParquetColumn> columns() const override {
    const Type type = classes_.empty() ? Type::Int32 : Type::Text;
    return {{"sample", Type::Int64},
            {"label", type},
            {"prediction", type},
            {"probability", Type::Float},
            {"scores", Type::Floats, num_classes_}};
  }

  size_t row_size() const override {
    return sizeof(int64_t) + sizeof(uint32_t) + num_classes_ * sizeof(float);
  }

  void add_row(std::vector<ParquetValues>& values, std::string_view row) const override {
    values[0].add(take<int64_t>(row));
    add_class(values[1], take<uint32_t>(row));
    const std::vector<float> scores = take_floats(row, num_classes_);
    const Answer answer = answer_of(scores);
    add_class(values[2], answer.most_probable);
    values[3].add(float(answer.probability));
    values[4].add(std::span<const float>(scores));
  }

  void add_class(ParquetValues& column, uint32_t number) const {
    if (classes_.empty()) {
      column.add(int32_t(number));
    } else {
      column.add(class_name(classes_, number));
    }
  }

  size_t num_classes_;
  std::vector<std::string> classes_;
};

class ParquetOfTargets : public ParquetFile {
 public:
  explicit ParquetOfTargets(const runtime::Model& model)
      : model_(model), num_targets_(size_t(model.num_scores())) {}

  std::string rows(const runtime::Prediction& prediction) const override {
    std::string rows;
    for (size_t i = 0; i < prediction.labels.size(); ++i) {
      append(rows, int64_t(prediction.first + i));
      for (const auto& values : {prediction.targets, prediction.scores}) {
        const auto of_sample = values.subspan(i * num_targets_, num_targets_);
        rows.append(reinterpret_cast<const char*>(of_sample.data()), of_sample.size_bytes());
      }
    }
    return rows;
  }

 private:
  std::vector<ParquetColumn> columns() const override {
    std::vector<ParquetColumn> columns = {{"sample", Type::Int64}};
    for (const std::string kind : {"target", "prediction"}) {
      for (const std::string& name : numbered(kind, num_targets_)) columns.push_back({name});
    }
    return columns;
  }

  size_t row_size() const override { return sizeof(int64_t) + 2 * num_targets_ * sizeof(float); }

  void add_row(std::vector<ParquetValues>& values, std::string_view row) const override {
    values[0].add(take<int64_t>(row));
    size_t column = 1;
    for (const float target : take_floats(row, num_targets_)) values[column++].add(target);
    for (const float score : take_floats(row, num_targets_)) {
      values[column++].add(value_of(model_, score));
    }
  }

  const runtime::Model& model_;
  size_t num_targets_;
};

}  // namespace

std::unique_ptr<PredictionFile> parquet_file(const runtime::Model& model,
                                             std::vector<std::string> classes) {
  if (has_targets(model.loss)) return std::make_unique<ParquetOfTargets>(model);
  return std::make_unique<ParquetOfClasses>(model, std::move(classes));
}

}  // namespace dlflow::steps
