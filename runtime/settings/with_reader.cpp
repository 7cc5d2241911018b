#include "runtime/settings/with_reader.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace dlflow::runtime {

WithReader::WithReader(const Json& with, const std::string& key)
    : with_(with), prefix_(key.empty() ? "" : key + ".") {
  if (with.is_object()) return;
  throw SettingError(key,
                     (key.empty() ? "" : "'" + key + "' is ") + std::string("not a JSON object"));
}

std::string WithReader::text(const std::string& key) {
  const Json& value = required(key);
  if (!value.is_string() || value.get<std::string>().empty()) fail(prefix_ + key, "a path");
  return value;
}

uint64_t WithReader::count(const std::string& key, uint64_t at_least,
                           std::optional<uint64_t> otherwise) {
  if (otherwise && !find(key)) return *otherwise;
  const Json& value = required(key);
  // Arithmetic in ${{ }} may give 3.0 instead of 3.
  const bool whole =
      value.is_number_integer() ||
      (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()));
  if (!whole || value.get<double>() < double(at_least)) {
    fail(prefix_ + key, "a whole number of at least " + std::to_string(at_least));
  }
  constexpr double kBeyond = 0x1p64;
  if (value.get<double>() >= kBeyond) fail(prefix_ + key, "a whole number below 2^64");
  return value.get<uint64_t>();
}

double WithReader::number(const std::string& key, double at_least,
                          std::optional<double> otherwise) {
  if (otherwise && !find(key)) return *otherwise;
  const Json& value = required(key);
  if (!value.is_number() || !(value.get<double>() >= at_least)) {
    fail(prefix_ + key, "a number, not negative");
  }
  return value;
}

uint64_t WithReader::size(const std::string& key, std::optional<uint64_t> otherwise) {
  const Json* value = find(key);
  if (value == nullptr && otherwise) return *otherwise;
  if (value == nullptr) refuse(prefix_ + key, "is missing: a size, such as 4GiB");
  if (value->is_number_integer() && *value > 0) return *value;
  try {
    if (value->is_string()) return parse_size(value->get<std::string>());
  } catch (const Error&) {  // reported below, with the key
  }
  fail(prefix_ + key, "a size, such as 4GiB");
}

bool WithReader::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(prefix_ + key, "true or false");
  return *value;
}

const Json* WithReader::find(const std::string& key) {
  known_.insert(key);
  const auto found = with_.find(key);
  return found == with_.end() ? nullptr : &*found;
}

void WithReader::fail(const std::string& key, const std::string& what) {
  throw SettingError(key, "'" + key + "' must be " + what);
}

void WithReader::fail(const std::string& key, std::vector<std::string> words) {
  for (std::string& word : words) word = "'" + word + "'";
  const std::string last = words.back();
  words.pop_back();
  fail(key, join(words, ", ") + " or " + last);
}

void WithReader::refuse(const std::string& key, const std::string& reason) {
  throw SettingError(key, "'" + key + "' " + reason);
}

void WithReader::finish() const {
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const auto& [key, value] : with_.items()) {
    if (known_.contains(key)) continue;
    const std::string advice = did_you_mean(key, known);
    throw SettingError(prefix_ + key,
                       "unknown key '" + prefix_ + key + "'" +
                           (advice.empty() ? "; known: " + join(known, ", ") : advice));
  }
}

const Json& WithReader::required(const std::string& key) {
  const Json* value = find(key);
  if (value == nullptr) refuse(prefix_ + key, "is missing");
  return *value;
}

}  // namespace dlflow::runtime
