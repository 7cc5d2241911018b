#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace dlflow::runtime {

/// A value of `with:` that cannot be. Errc::InvalidInput.
class SettingError : public Error {
 public:
  /// Says "with: TEXT". \param key  the value's, with the names of what it is in
  SettingError(std::string key, const std::string& text)
      : Error(Errc::InvalidInput, "with: " + text), key_(std::move(key)) {}

  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// Reads the keys of a step's `with:` one by one and then knows which nobody asked for. Every call
/// throws SettingError where its value is not what it must be.
class WithReader {
 public:
  /// `key`: where `with` is not the step's `with:` but the value of one of its keys.
  explicit WithReader(const Json& with, const std::string& key = "");

  /// A path; must be there.
  std::string text(const std::string& key);

  /// A whole number, and any number; must be there if there is no `otherwise`.
  uint64_t count(const std::string& key, uint64_t at_least, std::optional<uint64_t> otherwise);
  double number(const std::string& key, double at_least, std::optional<double> otherwise);

  /// Bytes, above 0: "4GiB" or their number. Must be there if there is no `otherwise`.
  uint64_t size(const std::string& key, std::optional<uint64_t> otherwise);

  bool flag(const std::string& key, bool otherwise);

  /// The value of `key`, of any type, or null.
  const Json* find(const std::string& key);

  /// The value of the word `given`: of the first of `words` if it is null. Fails with `what`.
  template <typename Value>
  static Value word(const Json* given, const std::string& key, const std::string& what,
                    std::initializer_list<std::pair<const char*, Value>> words) {
    if (given == nullptr) return words.begin()->second;
    for (const auto& [word, value] : words) {
      if (*given == word) return value;
    }
    fail(key, what);
  }

  /// "with: 'KEY' must be WHAT"; `key` with the names of what it is in.
  [[noreturn]] static void fail(const std::string& key, const std::string& what);

  /// "with: 'KEY' REASON", where the key cannot be given at all: "is not an option of 'adam'".
  [[noreturn]] static void refuse(const std::string& key, const std::string& reason);

  /// Throws if there is a key that was not read, most likely a misspelt one; names those that were.
  void finish() const;

 private:
  const Json& required(const std::string& key);

  const Json& with_;
  std::string prefix_;
  std::set<std::string> known_;
};

}  // namespace dlflow::runtime
