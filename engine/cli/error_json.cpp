#include "engine/cli/error_json.h"

#include <charconv>

#include "base/text.h"

namespace dlflow {
namespace {

/// Parses the number at `at` and moves `at` past the colon behind it; 0 if there is none.
int number_before_colon(const std::string& text, size_t& at) {
  int number = 0;
  const char* const begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || end == text.data() + text.size() || *end != ':') return 0;
  at = size_t(end - text.data()) + 1;
  return number;
}

/// "w.yaml:3:5: error: no such key"; null if `line` has another form.
Json diagnostic_of(const std::string& line) {
  for (const char* severity : {"error", "warning"}) {
    const std::string mark = std::string(": ") + severity + ": ";
    const size_t found = line.find(mark);
    if (found == std::string::npos) continue;
    Json diagnostic = {{"file", line.substr(0, found)},
                       {"line", nullptr},
                       {"column", nullptr},
                       {"severity", severity},
                       {"message", line.substr(found + mark.size())}};
    const std::string place = line.substr(0, found) + ":";
    for (size_t colon = place.find(':'); colon + 1 < place.size();
         colon = place.find(':', colon + 1)) {
      size_t at = colon + 1;
      const int row = number_before_colon(place, at);
      const int column = row > 0 ? number_before_colon(place, at) : 0;
      if (column == 0 || at != place.size()) continue;
      diagnostic["file"] = place.substr(0, colon);
      diagnostic["line"] = row;
      diagnostic["column"] = column;
      break;
    }
    return diagnostic;
  }
  return nullptr;
}

}  // namespace

Json diagnostics_json(const std::string& text) {
  Json diagnostics = Json::array();
  for (const std::string& line : split(text, '\n')) {
    if (Json diagnostic = diagnostic_of(line); !diagnostic.is_null()) {
      diagnostics.push_back(std::move(diagnostic));
    }
  }
  return diagnostics;
}

Json error_json(const std::string& text, int status) {
  constexpr std::string_view kPrefix = "error: ";
  const std::string_view message = trim(text);
  return {{"error",
           {{"message",
             std::string(message.starts_with(kPrefix) ? message.substr(kPrefix.size()) : message)},
            {"status", status},
            {"diagnostics", diagnostics_json(text)}}}};
}

}  // namespace dlflow
