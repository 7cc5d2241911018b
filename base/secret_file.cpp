#include "base/secret_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

bool is_control(char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; }

}  // namespace

void check_secret(const std::string& name, std::string_view value, const std::string& origin) {
  const std::string subject = "the secret " + name + " (" + origin + ") ";
  if (value.size() < kShortestSecret) {
    throw Error(Errc::InvalidInput, subject + "has fewer than " + std::to_string(kShortestSecret) +
                                        " characters: it is too short to be masked in logs");
  }
  if (std::any_of(value.begin(), value.end(), is_control)) {
    throw Error(Errc::InvalidInput, subject +
                                        "has a line break or another control character; put such a "
                                        "text into a file of mode 0600, and make its path the "
                                        "value");
  }
}

Secrets parse_secrets(std::string_view text, const fs::path& file) {
  Secrets secrets;
  size_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    const std::string place = file.string() + ":" + std::to_string(++number);
    if (trim(line).empty() || line.starts_with('#')) continue;
    const size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw Error(Errc::InvalidInput, place + ": this line is not of the form NAME=VALUE");
    }
    const std::string name = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    check_secret(name, value, place);
    if (!secrets.emplace(name, value).second) {
      throw Error(Errc::InvalidInput, place + ": a second line for " + name + "; remove one");
    }
  }
  return secrets;
}

Secrets read_secrets(const fs::path& file, const std::set<std::string>& names) {
  if (names.empty()) return {};
  const Secrets all = parse_secrets(read_file_if_exists(file).value_or(""), file);
  Secrets wanted;
  for (const std::string& name : names) {
    const auto found = all.find(name);
    if (found == all.end()) {
      throw Error(Errc::NotFound, "the secret " + name + " is not in " + file.string() +
                                      "; set it in the environment, and `dlflow resubmit` adds it");
    }
    wanted.insert(*found);
  }
  return wanted;
}

void write_secrets(const fs::path& file, const Secrets& secrets) {
  std::string text;
  for (const auto& [name, value] : secrets) text += name + "=" + value + "\n";
  write_file_atomic(file, text, Durability::Synced);
}

}  // namespace dlflow
