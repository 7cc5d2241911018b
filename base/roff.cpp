#include "base/roff.h"

#include <cctype>
#include <cstdint>

#include "base/version.h"

namespace dlflow::roff {
namespace {

std::string without_stop(std::string sentence) {
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

}  // namespace

std::string plain(const std::string& text) {
  std::string escaped;
  bool at_begin = true;
  for (const char c : text) {
    if (at_begin && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    at_begin = c == '\n';
  }
  return escaped;
}

std::string capitals(std::string text) {
  for (char& c : text) c = char(std::toupper(uint8_t(c)));
  return text;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string heading(const std::string& name, const std::string& summary) {
  return ".TH " + capitals(name) + " 1 \"\" \"dlflow " DLFLOW_VERSION "\" dlflow\n" +
         section("NAME", plain(name) + " \\- " + plain(without_stop(summary)) + "\n");
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : ".SH " + title + "\n" + body;
}

std::string item(const std::string& term, const std::string& meaning) {
  return ".TP\n" + term + "\n" + plain(meaning) + "\n";
}

std::string literal(const std::string& text) { return ".nf\n" + plain(text) + "\n.fi\n"; }

}  // namespace dlflow::roff
