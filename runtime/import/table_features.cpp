#include "runtime/import/table_features.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "runtime/data/names.h"
#include "runtime/import/split_by_name.h"

namespace dlflow::runtime {
namespace {

using Kind = Feature::Kind;

constexpr std::string_view kFeature = "feature ";
constexpr const char *kEmpty = "empty", *kOneHot = "one_hot", *kHash = "hash";

/// Whether other programs use `text` for a missing value.
bool looks_missing(std::string text) {
  if (text.find_first_of("nN<?") != 0) return false;  // quickly, for numbers
  constexpr std::array<std::string_view, 8> kMissing = {"na",   "n/a",  "nan", "null",
                                                        "none", "<na>", "nil", "?"};
  std::ranges::transform(text, text.begin(), [](char c) { return char(std::tolower(uint8_t(c))); });
  return std::ranges::find(kMissing, text) != kMissing.end();
}

/// Single precision has a sign and 24 bits, so it rounds some larger whole numbers. `text`: of the
/// field, without a plus sign.
void note_rounding(const TableField& field, std::string_view text, float rounded,
                   const std::string& column, TableReader& reader) {
  constexpr float kLargest = 1 << 24;
  if (std::abs(rounded) < kLargest || text.find_first_of("eE") != text.npos) return;
  long double exact = 0;  // double has 53 bits
  std::from_chars(text.data(), text.data() + text.size(), exact);
  if (exact != std::floor(exact) || exact == rounded) return;
  reader.note(
      field, column, "rounded",
      fmt::format("{} becomes {:.0f} in single precision", shown_field(field.text), rounded),
      "leave the column out with --features, or subtract a constant, if this matters");
}

void set_coding(Feature& feature, const Json& coding) {
  feature.texts = coding.value(kOneHot, feature.texts);
  feature.buckets = std::min(coding.value(kHash, 0u), kMaxTextNumbers);
  feature.kind = feature.buckets > 0     ? Kind::Hash
                 : feature.texts.empty() ? Kind::Number
                                         : Kind::OneHot;
  if (coding.contains(kEmpty)) feature.fill = coding[kEmpty].get<float>();
}

}  // namespace

size_t Feature::num_values() const {
  return kind == Kind::OneHot ? texts.size() : kind == Kind::Hash ? buckets : 1;
}

std::string line_of(const Feature& feature) {
  Json coding = Json::object();
  if (feature.kind == Kind::OneHot) coding[kOneHot] = feature.texts;
  if (feature.kind == Kind::Hash) coding[kHash] = feature.buckets;
  // In single precision, the number has fewer digits.
  if (feature.fill) coding[kEmpty] = number_from<double>(fmt::format("{}", *feature.fill)).value();
  return std::string(kFeature) + feature.column + (coding.empty() ? "" : " " + coding.dump());
}

std::vector<Feature> features_of(const std::vector<std::string>& lines) {
  std::vector<Feature> features;
  for (const std::string& line : lines) {
    if (!line.starts_with(kFeature)) continue;
    const size_t begin = std::min(line.find(" {\""), line.size());
    Feature feature{line.substr(kFeature.size(), begin - kFeature.size())};
    const Json coding = parse_json(std::string_view(line).substr(begin), kForeignJson);
    try {
      if (coding.is_object()) set_coding(feature, coding);
    } catch (const Json::exception& error) {
      throw Error(Errc::Corrupt, "'" + line + "' is not a column: " + reason_of(error));
    }
    features.push_back(std::move(feature));
  }
  return features;
}

bool is_missing(const std::string& text, Kind kind) {
  return text.empty() || (kind == Kind::Number && looks_missing(text));
}

std::string missing_text(const std::string& text) {
  return text.empty() ? "is empty" : shown_field(text) + " is not a number";
}

std::optional<float> number_in(const TableField& field, const std::string& column,
                               const std::string& remedy, TableReader& reader) {
  std::string_view text = field.text;
  const auto refuse = [&](const std::string& what) {
    reader.report(field.offset, what + " (column '" + column + "')");
    return std::nullopt;
  };
  if (is_missing(field.text, Kind::Number)) {
    reader.refuse_missing(field, column, missing_text(field.text),
                          "write a number, or " + remedy);
    return std::nullopt;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    return refuse(shown_field(field.text) + " is not a number");
  }
  if (std::isnan(value) || std::isinf(value))
    return refuse(shown_field(field.text) + " is not finite");
  if (error != std::errc() || std::abs(value) > double(std::numeric_limits<float>::max())) {
    return refuse(shown_field(field.text) + " does not fit into single precision");
  }
  note_rounding(field, text, float(value), column, reader);
  return float(value);
}

bool names_class(const TableField& field, const std::string& column, TableReader& reader) {
  const std::string mistake = mistake_in_name(field.text);
  if (mistake == "is not UTF-8") {
    reader.report(field.offset,
                  mistake + "; convert the file with iconv (column '" + column + "')");
  } else if (!mistake.empty()) {
    reader.report(field.offset, mistake + "; write the name of a class (column '" + column + "')");
  } else if (looks_missing(field.text)) {
    reader.note(field, column, field.text, shown_field(field.text) + " is a class like any other",
                "leave the row out if its class is not known");
  }
  return mistake.empty();
}

void append_numbers(const Feature& feature, const TableField& field, const std::string& remedy,
                    TableReader& reader, std::vector<float>& values) {
  const auto& [column, kind, texts, buckets, fill] = feature;
  const bool lacks_value = is_missing(field.text, kind);
  if (lacks_value && fill) {
    reader.note(field, column, "filled", missing_text(field.text),
                fmt::format("{:.4g} is in its place", *fill));
  }
  if (kind == Kind::Number) {
    const auto value = lacks_value && fill ? fill : number_in(field, column, remedy, reader);
    return values.push_back(value.value_or(0));
  }
  const size_t first = values.size();
  values.resize(first + feature.num_values());
  if (lacks_value && fill) return;
  if (lacks_value) {
    return reader.refuse_missing(field, column, "is empty", "write a text, or " + remedy);
  }
  if (kind == Kind::Hash) {
    values[first + hash_of(field.text) % buckets] = 1;
  } else if (names_class(field, column, reader)) {
    const auto found = std::ranges::lower_bound(texts, field.text);
    if (found != texts.end() && *found == field.text) {
      values[first + size_t(found - texts.begin())] = 1;
    } else {
      reader.note(field, column, "unknown", shown_field(field.text) + " is in no training row",
                  "0 is in its place");
    }
  }
}

}  // namespace dlflow::runtime
