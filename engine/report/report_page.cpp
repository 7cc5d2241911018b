#include "engine/report/report_page.h"

#include <string_view>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"
#include "engine/report/page/parts.h"

namespace dlflow {
namespace {

int digit(char hex) { return hex <= '9' ? hex - '0' : hex - 'a' + 10; }

/// The hash of a script or style sheet for a content security policy, in base 64.
std::string policy_hash(std::string_view text) {
  const std::string hex = sha256_hex(text);
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += char(digit(hex[i]) << 4 | digit(hex[i + 1]));
  return "'sha256-" + base64(bytes) + "'";
}

/// JSON that is safe in a script element: no tag can begin in it.
std::string for_script(const Json& data) {
  const std::string json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string report_page(const Json& data) {
  const PageParts parts = page_parts();
  if (parts.chart_library.empty()) {
    throw Error(Errc::NotFound,
                "this dlflow was built without Chart.js, which draws the curves of a report; "
                "install Debian's package libjs-chart.js and build it again (`./dev build`)");
  }
  Json content = data;
  content["licence"] = parts.chart_licence;
  const std::string script =
      "\"use strict\";\n" + std::string(parts.chart_library) + "\n" + std::string(parts.script);
  const std::string_view style = parts.style;
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src " +
         policy_hash(script) + "; style-src " + policy_hash(style) +
         "; img-src data:; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<title>report of dlflow</title>\n<style>" +
         std::string(style) + "</style>\n</head>\n<body>\n" + std::string(parts.body) +
         "<script type=\"application/json\" id=\"data\">" + for_script(content) +
         "</script>\n<script>" + script + "</script>\n</body>\n</html>\n";
}

}  // namespace dlflow
