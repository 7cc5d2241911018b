#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/parse_json.h"

/// Structs as JSON objects, with one list of fields for both directions. For a struct T, `template
/// <class Archive> void list_fields(Archive& archive, T& value)` calls archive("key", value.member)
/// for each field, or DLFLOW_FIELDS for fields whose key is the member's name. It must not change
/// `value`, which may be const during writing. DLFLOW_DEFINE_FIELDS defines it for a T that has
/// only such fields.
#define DLFLOW_FIELD(member) archive(#member, value.member);
#define DLFLOW_FIELD_IF_THERE(member) archive.if_there(#member, value.member);
#define DLFLOW_FIELD_UNLESS_DEFAULT(member) archive.unless_default(#member, value.member);
#define DLFLOW_FIELDS(...) NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DLFLOW_FIELD, __VA_ARGS__))
#define DLFLOW_FIELDS_IF_THERE(...) \
  NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DLFLOW_FIELD_IF_THERE, __VA_ARGS__))
#define DLFLOW_FIELDS_UNLESS_DEFAULT(...) \
  NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(DLFLOW_FIELD_UNLESS_DEFAULT, __VA_ARGS__))
#define DLFLOW_DEFINE_FIELDS(T, ...)             \
  template <class Archive>                       \
  void list_fields(Archive& archive, T& value) { \
    DLFLOW_FIELDS(__VA_ARGS__)                   \
  }

namespace dlflow {

class FieldWriter;

template <class T>
concept HasFields = !std::is_same_v<T, Json> && requires(FieldWriter & archive, T& value) {
  list_fields(archive, value);
};

template <class T>
constexpr bool kIsVectorOfFields = false;
template <HasFields T>
constexpr bool kIsVectorOfFields<std::vector<T>> = true;
template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsDuration = false;
template <class Rep, class Period>
constexpr bool kIsDuration<std::chrono::duration<Rep, Period>> = true;

/// A path becomes its text, a duration its number of ticks, a time its RFC 3339 text, and an
/// optional null or its value.
template <class T>
Json json_of(const T& value);

/// The same, but null for an empty text or a zero.
template <class T>
Json or_null(const T& value) {
  return value == T{} ? Json() : json_of(value);
}

/// The inverse. Throws Json::exception.
template <class T>
void read_from(const Json& json, T& value);

class FieldWriter {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    json[key] = json_of(value);
  }
  template <class T>
  void if_there(const char* key, const T& value) {
    (*this)(key, value);
  }
  template <class T>
  void if_there(const char* key, const T& value, const T&) {
    (*this)(key, value);
  }
  /// A field that is left out if it equals `normal`.
  template <class T>
  void unless_default(const char* key, const T& value, const T& normal = {}) {
    if (value != normal) (*this)(key, value);
  }
  bool has(const char*) const { return true; }

  Json json = Json::object();
};

class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}

  template <class T>
  void operator()(const char* key, T& value) {
    read_from(json_.at(key), value);
  }
  /// A field that older versions did not write: if it is missing, `value` is unchanged.
  template <class T>
  void if_there(const char* key, T& value) {
    if (has(key)) (*this)(key, value);
  }
  template <class T>
  void unless_default(const char* key, T& value, const T& normal = {}) {
    value = normal;
    if_there(key, value);
  }
  /// The same for structs whose default is not `absent`, the value that a missing field stands for.
  template <class T>
  void if_there(const char* key, T& value, const T& absent) {
    if (!has(key)) value = absent;
    if_there(key, value);
  }
  bool has(const char* key) const { return json_.contains(key); }

 private:
  const Json& json_;
};

template <class T>
Json json_of(const T& value) {
  if constexpr (HasFields<T>) {
    FieldWriter writer;
    list_fields(writer, const_cast<T&>(value));
    return std::move(writer.json);
  } else if constexpr (kIsVectorOfFields<T>) {
    Json list = Json::array();
    for (const auto& element : value) list.push_back(json_of(element));
    return list;
  } else if constexpr (kIsOptional<T>) {
    return value ? json_of(*value) : Json();
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    return value.string();
  } else if constexpr (kIsDuration<T>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, Time>) {
    return to_rfc3339(value);
  } else {
    return value;
  }
}

template <class T>
void read_from(const Json& json, T& value) {
  if constexpr (HasFields<T>) {
    FieldReader reader(json);
    list_fields(reader, value);
  } else if constexpr (kIsVectorOfFields<T>) {
    value.clear();
    for (const Json& element : json) read_from(element, value.emplace_back());
  } else if constexpr (kIsOptional<T>) {
    value.reset();
    if (!json.is_null()) read_from(json, value.emplace());
  } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
    value = json.get<std::string>();
  } else if constexpr (kIsDuration<T>) {
    value = T(json.get<int64_t>());
  } else if constexpr (std::is_same_v<T, Time>) {
    value = from_rfc3339(json.get<std::string>());
  } else if constexpr (std::is_same_v<T, Json>) {
    value = json;
  } else {
    json.get_to(value);
  }
}

template <class T>
T from_fields(const Json& json) {
  T value{};
  read_from(json, value);
  return value;
}

/// The same, but throws Error{Corrupt}: "not a `what`: reason".
template <class T>
T from_fields(const Json& json, const std::string& what) {
  try {
    return from_fields<T>(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, "not a " + what + ": " + reason_of(error));
  }
}

}  // namespace dlflow
