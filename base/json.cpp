#include "base/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace dlflow {
namespace {

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text,
                             [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

void append_text(std::string& text, const std::string& value) {
  if (!is_plain(value)) {
    text += Json(value).dump();
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

template <typename Integer>
void append_number(std::string& text, Integer value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.begin(), digits.end(), value);
  text.append(digits.data(), end.ptr);
}

}  // namespace

std::string text_or_dump(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

void append_dump(std::string& text, const Json& json) {
  if (json.is_string()) {
    append_text(text, json.get_ref<const std::string&>());
  } else if (json.is_number_unsigned()) {
    append_number(text, json.get_ref<const Json::number_unsigned_t&>());
  } else if (json.is_number_integer()) {
    append_number(text, json.get_ref<const Json::number_integer_t&>());
  } else if (json.is_structured() && !json.empty()) {
    char before = json.is_object() ? '{' : '[';
    for (auto member = json.begin(); member != json.end(); ++member, before = ',') {
      text += before;
      if (json.is_object()) {
        append_text(text, member.key());
        text += ':';
      }
      append_dump(text, *member);
    }
    text += json.is_object() ? '}' : ']';
  } else {
    text += json.dump();
  }
}

}  // namespace dlflow
