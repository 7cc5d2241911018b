#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/error.h"
#include "steps/predict/answer.h"
#include "steps/predict/formats.h"

// The classic format with 64-bit offsets (CDF-2), which every reader knows:
// https://docs.unidata.ucar.edu/nug/current/file_format_specifications.html. Its values are
// big-endian, and each field is padded to 4 bytes. A record has a value of each variable along
// the unlimited dimension, here the sample, so records are written one after the other.
namespace dlflow::steps {
namespace {

enum class NcType : uint32_t { Byte = 1, Char = 2, Int = 4, Float = 5 };
constexpr uint32_t kDimensions = 10, kVariables = 11, kAttributes = 12;

void append_number(std::string& text, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(char(value >> shift & 0xff));
}

void append_offset(std::string& text, uint64_t value) {
  append_number(text, uint32_t(value >> 32));
  append_number(text, uint32_t(value));
}

void append_float(std::string& text, float value) {
  append_number(text, std::bit_cast<uint32_t>(value));
}

void pad(std::string& text) { text.append((4 - text.size() % 4) % 4, '\0'); }

void append_name(std::string& text, const std::string& name) {
  append_number(text, uint32_t(name.size()));
  text += name;
  pad(text);
}

size_t size_of(NcType type) { return type == NcType::Byte || type == NcType::Char ? 1 : 4; }

struct Dimension {
  std::string name;
  size_t size = 0;  ///< 0: of the samples
};

struct Attribute {
  std::string name, value;
};

struct Variable {
  std::string name;
  std::vector<uint32_t> dimensions;  ///< numbers of dimensions, the samples' first if it has it
  NcType type = NcType::Float;
  std::vector<Attribute> attributes = {};
};

void append_attributes(std::string& text, const std::vector<Attribute>& attributes) {
  append_number(text, attributes.empty() ? 0 : kAttributes);
  append_number(text, uint32_t(attributes.size()));
  for (const Attribute& attribute : attributes) {
    append_name(text, attribute.name);
    append_number(text, uint32_t(NcType::Char));
    append_name(text, attribute.value);
  }
}

/// What a file holds, before it is known where.
struct Layout {
  std::vector<Dimension> dimensions = {{"sample", 0}};
  std::vector<Variable> fixed;    ///< without samples
  std::vector<Variable> records;  ///< of each sample

  uint32_t add_dimension(const std::string& name, size_t size) {
    dimensions.push_back({name, size});
    return uint32_t(dimensions.size() - 1);
  }

  /// Bytes of all values, or of those of a sample; padded.
  size_t bytes_of(const Variable& variable) const {
    size_t size = size_of(variable.type);
    for (const uint32_t number : variable.dimensions) {
      if (number != 0) size *= dimensions[number].size;
    }
    return (size + 3) / 4 * 4;
  }

  /// \param begin  where the values of the first variable are
  std::string header(size_t samples, uint64_t begin) const {
    std::string text("CDF\x02", 4);
    append_number(text, uint32_t(samples));
    append_number(text, kDimensions);
    append_number(text, uint32_t(dimensions.size()));
    for (const Dimension& dimension : dimensions) {
      append_name(text, dimension.name);
      append_number(text, uint32_t(dimension.size));
    }
    append_attributes(text, {{"source", "dlflow predict"}});
    append_number(text, kVariables);
    append_number(text, uint32_t(fixed.size() + records.size()));
    for (const auto* variables : {&fixed, &records}) {
      for (const Variable& variable : *variables) {
        append_variable(text, variable, begin);
        begin += bytes_of(variable);
      }
    }
    return text;
  }

 private:
  void append_variable(std::string& text, const Variable& variable, uint64_t begin) const {
    append_name(text, variable.name);
    append_number(text, uint32_t(variable.dimensions.size()));
    for (const uint32_t number : variable.dimensions) append_number(text, number);
    append_attributes(text, variable.attributes);
    append_number(text, uint32_t(variable.type));
    append_number(text, uint32_t(bytes_of(variable)));
    append_offset(text, begin);
  }
};

/// A name for each class, its number if it has none; or nothing, if none has one.
std::vector<std::string> names_of(const runtime::Model& model, std::vector<std::string> classes) {
  if (classes.empty() || model.loss != runtime::LossKind::SoftmaxCrossEntropy) return {};
  for (size_t i = classes.size(); i < size_t(model.num_scores()); ++i) {
    classes.push_back(std::to_string(i));
  }
  return classes;
}

/// The format has no larger integers.
void require_numbers(size_t samples) {
  if (samples <= size_t(std::numeric_limits<int32_t>::max())) return;
  throw Error(Errc::InvalidInput,
              "with: 'format: netcdf' is for data of up to 2,147,483,647 samples; write 'format: "
              "parquet' or 'format: npy'");
}

size_t longest(const std::vector<std::string>& names) {
  size_t size = 1;
  for (const std::string& name : names) size = std::max(size, name.size());
  return size;
}

class NetCdfFile : public PredictionFile {
 public:
  NetCdfFile(const runtime::Model& model, std::vector<std::string> classes)
      : model_(model), class_names_(names_of(model, std::move(classes))) {
    layout_.records.push_back({.name = "sample", .dimensions = {0}, .type = NcType::Int});
    if (has_masks(model.loss)) {
      lay_out_masks();
    } else if (has_targets(model.loss)) {
      lay_out_targets();
    } else if (has_classes()) {
      lay_out_classes();
    } else {
      lay_out_scores();
    }
  }

  std::string name() const override { return "predictions.nc"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    const size_t count = prediction.labels.size(), width = prediction.scores.size() / count;
    require_numbers(prediction.first + count);
    const std::string masks = has_masks(model_.loss) ? masks_of(model_, prediction) : "";
    std::string rows;
    for (size_t i = 0; i < count; ++i) {
      append_number(rows, uint32_t(prediction.first + i));
      const auto scores = prediction.scores.subspan(i * width, width);
      if (has_masks(model_.loss)) {
        rows.append(masks, i * (masks.size() / count), masks.size() / count);
        pad(rows);
      } else if (has_targets(model_.loss)) {
        for (const float target : prediction.targets.subspan(i * width, width)) {
          append_float(rows, target);
        }
        for (const float score : scores) append_float(rows, value_of(model_, score));
      } else {
        if (has_classes()) append_answer(rows, prediction.labels[i], answer_of(scores));
        for (const float score : scores) append_float(rows, score);
      }
    }
    return rows;
  }

 private:
  bool has_classes() const { return model_.loss == runtime::LossKind::SoftmaxCrossEntropy; }

  static void append_answer(std::string& rows, uint32_t label, const Answer& answer) {
    append_number(rows, label);
    append_number(rows, answer.most_probable);
    append_float(rows, float(answer.probability));
  }

  void lay_out_masks() {
    const std::vector<int64_t>& shape = model_.layers.back().shape;
    const uint32_t height = layout_.add_dimension("height", size_t(shape[1]));
    const uint32_t width = layout_.add_dimension("width", size_t(shape[2]));
    layout_.records.push_back({.name = "mask",
                               .dimensions = {0, height, width},
                               .type = NcType::Byte,
                               .attributes = {{"_Unsigned", "true"}}});
  }

  void lay_out_targets() {
    // Not "target": a variable of the name of a dimension is its coordinates.
    const uint32_t number = layout_.add_dimension("target_number", size_t(model_.num_scores()));
    layout_.records.push_back({.name = "target", .dimensions = {0, number}});
    layout_.records.push_back({.name = "prediction", .dimensions = {0, number}});
  }

  void lay_out_classes() {
    const uint32_t number = layout_.add_dimension("class", size_t(model_.num_scores()));
    if (!class_names_.empty()) {
      const uint32_t length = layout_.add_dimension("name_length", longest(class_names_));
      layout_.fixed.push_back({.name = "class_name",
                               .dimensions = {number, length},
                               .type = NcType::Char,
                               .attributes = {{"_Encoding", "utf-8"}}});
    }
    layout_.records.push_back({.name = "label", .dimensions = {0}, .type = NcType::Int});
    layout_.records.push_back({.name = "prediction", .dimensions = {0}, .type = NcType::Int});
    layout_.records.push_back({.name = "probability", .dimensions = {0}});
    layout_.records.push_back({.name = "score", .dimensions = {0, number}});
  }

  /// Of any shape.
  void lay_out_scores() {
    std::vector<uint32_t> dimensions = {0};
    for (const int64_t size : model_.layers.back().shape) {
      const std::string name = "axis_" + std::to_string(dimensions.size());
      dimensions.push_back(layout_.add_dimension(name, size_t(size)));
    }
    layout_.records.push_back({.name = "score", .dimensions = dimensions});
  }

  std::string head(size_t samples) const override {
    // Places are numbers of a fixed size: the header's own is that of any other.
    std::string text = layout_.header(samples, layout_.header(samples, 0).size());
    for (const std::string& name : class_names_) {
      text += name;
      text.append(longest(class_names_) - name.size(), '\0');
    }
    pad(text);
    return text;
  }

  const runtime::Model& model_;
  std::vector<std::string> class_names_;
  Layout layout_;
};

}  // namespace

std::unique_ptr<PredictionFile> netcdf_file(const runtime::Model& model,
                                            std::vector<std::string> classes) {
  return std::make_unique<NetCdfFile>(model, std::move(classes));
}

}  // namespace dlflow::steps
