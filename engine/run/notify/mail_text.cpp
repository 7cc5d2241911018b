#include "engine/run/notify/mail_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace dlflow {
namespace {

/// One character of UTF-8 as the Q encoding of RFC 2047 has it: "=C3=BC".
std::string q_encoded(std::string_view character) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (const char byte : character) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80 && std::isalnum(value) != 0) {
      text += byte;
    } else {
      text += {'=', kDigits[size_t(value >> 4)], kDigits[size_t(value & 15)]};
    }
  }
  return text;
}

}  // namespace

std::string in_header(const std::string& text, const std::string& between) {
  // A line has at most 76 characters, with "Subject: " and what marks a word.
  constexpr size_t kMostOfWord = 76 - 9 - 12;
  const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
  if (std::ranges::all_of(text, is_ascii)) return text;
  std::string words, word;
  const auto end_word = [&] {
    words += (words.empty() ? "" : between) + ("=?UTF-8?Q?" + std::exchange(word, "") + "?=");
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    const std::string character = q_encoded(std::string_view(text).substr(begin, end - begin));
    if (word.size() + character.size() > kMostOfWord) end_word();
    word += character;
    begin = end;
  }
  end_word();
  return words;
}

std::string mail_text(const std::string& address, const std::string& subject,
                      const std::string& body) {
  return "To: " + address + "\nSubject: " + in_header(subject, "\n ") +
         "\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8"
         "\nContent-Transfer-Encoding: 8bit\n\n" +
         body;
}

}  // namespace dlflow
