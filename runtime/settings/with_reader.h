#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace dlflow::runtime {

/// An invalid value in `with:`. Errc::InvalidInput.
class SettingError : public Error {
 public:
  /// The message is "with: TEXT". \param key  the full path of the key
  SettingError(std::string key, const std::string& text)
      : Error(Errc::InvalidInput, "with: " + text), key_(std::move(key)) {}

  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// Reads the keys of a step's `with:` one by one, and can then find keys that were never read.
/// Every call throws SettingError if its value is invalid.
class WithReader {
 public:
  /// `key`: the path of `with` if it is the value of a key within the step's `with:`.
  explicit WithReader(const Json& with, const std::string& key = "");

  /// A path; required.
  std::string text(const std::string& key);

  /// A whole number, and any number; required without `otherwise`.
  uint64_t count(const std::string& key, uint64_t at_least, std::optional<uint64_t> otherwise);
  double number(const std::string& key, double at_least, std::optional<double> otherwise);

  /// A size above 0: "4GiB" or a number of bytes. Required without `otherwise`.
  uint64_t size(const std::string& key, std::optional<uint64_t> otherwise);

  bool flag(const std::string& key, bool otherwise);

  /// The value of `key`, of any type, or null.
  const Json* find(const std::string& key);

  /// Words and their meanings, in the order of messages.
  template <typename Value>
  using Words = std::initializer_list<std::pair<const char*, Value>>;

  /// The meaning of the word of `key`, or that of the first of `words` if there is none.
  template <typename Value>
  Value word(const std::string& key, Words<Value> words) {
    const Json* const given = find(key);
    if (given == nullptr) return words.begin()->second;
    std::vector<std::string> all;
    for (const auto& [word, value] : words) {
      if (*given == word) return value;
      all.push_back(word);
    }
    fail(prefix_ + key, std::move(all));
  }

  /// The word for `value`, which is among `words`.
  template <typename Value>
  static const char* name_of(Value value, Words<Value> words) {
    return std::ranges::find(words, value, &std::pair<const char*, Value>::second)->first;
  }

  /// Throws "with: 'KEY' must be WHAT"; `key` is the full path.
  [[noreturn]] static void fail(const std::string& key, const std::string& what);

  /// The same: "with: 'KEY' must be 'A', 'B' or 'C'".
  [[noreturn]] static void fail(const std::string& key, std::vector<std::string> words);

  /// Throws "with: 'KEY' REASON", for keys that are not allowed: "is not an option of 'adam'".
  [[noreturn]] static void refuse(const std::string& key, const std::string& reason);

  /// Throws if a key was not read, most likely a misspelt one; the message lists known keys.
  void finish() const;

 private:
  const Json& required(const std::string& key);

  const Json& with_;
  std::string prefix_;
  std::set<std::string> known_;
};

}  // namespace dlflow::runtime
