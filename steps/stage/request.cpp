#include "steps/stage/request.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

constexpr std::array<std::pair<std::string_view, Unpack>, 4> kUnpackNames{
    {{"none", Unpack::None}, {"gzip", Unpack::Gzip}, {"zip", Unpack::Zip}, {"tar", Unpack::Tar}}};

[[noreturn]] void fail(const std::string& source, const std::string& what) {
  throw Error(Errc::InvalidInput, "source " + source + ": " + what);
}

std::string text_at(const Json& source, const char* key, const std::string& who) {
  const Json value = source.value(key, Json(""));
  if (!value.is_string()) fail(who, std::string(key) + " is a text, not " + value.dump());
  return value.get<std::string>();
}

Unpack unpack_named(const std::string& text, const std::string& who) {
  if (text.empty()) return Unpack::None;
  for (const auto& [word, unpack] : kUnpackNames) {
    if (word == text) return unpack;
  }
  const std::vector<std::string> known = {"none", "gzip", "zip", "tar"};
  fail(who, "unpack: '" + text + "' is none of none, gzip, zip, tar" + did_you_mean(text, known));
}

int hex_digit(char digit) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  const auto place = kDigits.find(char(digit | 0x20));
  return place == std::string_view::npos ? -1 : int(place);
}

/// "%20" -> " "; whatever is not an escape stays.
std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 &&
        hex_digit(text[i + 2]) >= 0) {
      decoded += char(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

/// The part of an address between host and query, decoded.
std::string path_of(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t begin = url.find('/', host);
  if (begin == std::string::npos) return "";
  return percent_decoded(url.substr(begin, url.find_first_of("?#", begin) - begin));
}

std::filesystem::path local_file(const std::string& url, const std::string& who) {
  const std::string_view rest = std::string_view(url).substr(std::string_view("file://").size());
  if (!rest.starts_with('/') && !rest.starts_with("localhost/")) {
    fail(who, "an address of a local file has three slashes and its whole path: file:///data/x.gz");
  }
  const std::string path(rest.substr(rest.find('/')));
  return percent_decoded(path);  // '?' and '#' are letters like others in a file's name
}

bool is_remote(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

/// What the source is called if the workflow does not say: the last part of its address, without
/// the ending that unpacking takes away.
std::string default_name(const Source& source) {
  const std::filesystem::path path =
      source.file.empty() ? std::filesystem::path(path_of(source.url)) : source.file;
  std::string name = path.filename().string();
  const auto without = [&](std::string_view ending) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      name.resize(name.size() - ending.size());
    }
  };
  switch (source.unpack) {
    case Unpack::None:
      break;
    case Unpack::Gzip:
      without(".gz");
      break;
    case Unpack::Zip:
      without(".zip");
      break;
    case Unpack::Tar:
      without(".gz");
      without(".tgz");
      without(".tar");
      break;
  }
  return name;
}

void validate_sha256(std::string& sha256, const std::string& who) {
  if (sha256.empty()) return;
  bool valid = sha256.size() == 64;
  for (char& digit : sha256) {
    valid = valid && hex_digit(digit) >= 0;
    if (digit >= 'A' && digit <= 'F') digit = char(digit | 0x20);
  }
  if (!valid) fail(who, "sha256: is 64 hexadecimal digits, not '" + sha256 + "'");
}

Source parse_source(const Json& json, size_t number) {
  const std::string position = "number " + std::to_string(number);
  if (!json.is_object()) fail(position, "needs a url:");
  Source source;
  source.url = text_at(json, "url", position);
  if (source.url.empty()) fail(position, "needs a url:");
  const std::string who = display_url(source.url);
  if (source.url.starts_with("file://")) {
    source.file = local_file(source.url, who);
  } else if (!is_remote(source.url)) {
    fail(who, "is not an address that can be staged; write file:///…, http://… or https://…");
  }
  if (source.url.find_first_of(std::string_view(" \t\r\n\0", 5)) != std::string::npos) {
    fail(who, "an address has no white space; write %20 for a space");
  }
  source.sha256 = text_at(json, "sha256", who);
  validate_sha256(source.sha256, who);
  source.unpack = unpack_named(text_at(json, "unpack", who), who);
  source.name = text_at(json, "name", who);
  if (source.name.empty()) source.name = default_name(source);
  if (source.name.empty() || source.name == "." || source.name == ".." ||
      source.name.find('/') != std::string::npos) {
    fail(who, "name: '" + source.name + "' is not a file name; give one");
  }
  return source;
}

}  // namespace

std::string name(Unpack unpack) { return std::string(kUnpackNames[size_t(unpack)].first); }

std::vector<Source> parse_sources(const Json& with) {
  const Json sources = with.value("sources", Json());
  if (!sources.is_array() || sources.empty()) {
    throw Error(Errc::InvalidInput, "sources: is a list of at least one {url: …}");
  }
  std::vector<Source> parsed;
  std::set<std::string> names;
  for (const Json& json : sources) {
    parsed.push_back(parse_source(json, parsed.size() + 1));
    if (!names.insert(parsed.back().name).second) {
      fail(display_url(parsed.back().url),
           "another source is called '" + parsed.back().name + "', too; give one of them a name:");
    }
  }
  return parsed;
}

std::string display_url(const std::string& url) {
  const size_t host = url.find("://");
  if (host == std::string::npos) return url;
  const size_t end = url.find_first_of("/?#", host + 3);
  const size_t at = url.rfind('@', end);
  if (at == std::string::npos || at < host + 3) return url;
  return url.substr(0, host + 3) + url.substr(at + 1);
}

}  // namespace dlflow::steps
