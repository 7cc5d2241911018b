#include "steps/stage/request.h"

#include <array>
#include <cctype>
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
  fail(who,
       "unpack: '" + text + "' is not one of none, gzip, zip, tar" + did_you_mean(text, known));
}

Address address_of(const std::string& url) {
  try {
    return parse_address(url);
  } catch (const Error& error) {
    throw Error(error.code(), std::string("source ") + error.what());
  }
}

/// The name of the source if the workflow gives none: the last part of its address, without the
/// extension that unpacking removes.
std::string default_name(const Source& source) {
  const std::string name = std::filesystem::path(source.address.place.path).filename().string();
  if (source.commit.empty()) return unpacked_name(name, source.unpack);
  return name.ends_with(".git") ? name.substr(0, name.size() - 4) : name;
}

/// `digits` in lower case. Throws unless they are `length` hexadecimal digits, or empty.
std::string hex_text(std::string digits, size_t length, const char* key, const std::string& who) {
  bool valid = digits.empty() || digits.size() == length;
  for (char& digit : digits) {
    valid = valid && std::isxdigit(static_cast<unsigned char>(digit)) != 0;
    digit = char(std::tolower(static_cast<unsigned char>(digit)));
  }
  if (valid) return digits;
  fail(who, std::string(key) + ": must be " + std::to_string(length) +
                " hexadecimal digits, not '" + digits + "'");
}

ManifestSource parse_manifest_source(const Json& json, const std::string& who) {
  if (json.is_null()) return {};
  if (json.is_string()) return {.file = json.get<std::string>(), .url = {}, .sha256 = {}};
  if (!json.is_object()) fail(who, "manifest: must be a file, or {url: …, sha256: …}");
  ManifestSource manifest{.file = {},
                          .url = text_at(json, "url", who),
                          .sha256 = hex_text(text_at(json, "sha256", who), 64, "sha256", who)};
  if (manifest.url.empty() || manifest.sha256.empty()) {
    fail(who, "manifest: needs a url: and the sha256: of what is there");
  }
  const Address address = address_of(manifest.url);
  if (address.scheme == Scheme::Git || !address.place.is_file()) {
    fail(who, "manifest: " + address.display() + " is not the address of a file");
  }
  return manifest;
}

/// Throws if the source has keys that exclude each other, or lacks one.
void validate(const Source& source, const std::string& who) {
  const bool is_git = source.address.scheme == Scheme::Git;
  const bool has_manifest = source.manifest.is_given();
  if (is_git && source.commit.empty()) {
    fail(who,
         "needs a commit: of 40 digits, so that every run gets the same files; `git ls-remote` "
         "prints it");
  }
  if (!is_git && !source.commit.empty()) fail(who, "commit: is for git addresses");
  if (is_git && (!source.sha256.empty() || has_manifest || source.unpack != Unpack::None)) {
    fail(who, "the commit determines its files; leave out sha256:, manifest: and unpack:");
  }
  if (!source.sha256.empty() && !source.address.place.is_file()) {
    fail(who, "sha256: is for one file; give the hashes of many in a manifest:");
  }
  const bool has_many = !source.address.place.is_file() || source.unpack == Unpack::Zip ||
                        source.unpack == Unpack::Tar;
  if (has_manifest && !has_many) {
    fail(who, "manifest: is for a folder, a pattern or an archive; give one file its sha256:");
  }
}

Source parse_source(const Json& json, size_t number) {
  const std::string position = "number " + std::to_string(number);
  if (!json.is_object()) fail(position, "needs a url:");
  const std::string url = text_at(json, "url", position);
  if (url.empty()) fail(position, "needs a url:");
  Source source{.address = address_of(url), .sha256 = {}, .commit = {}, .name = {}};
  const std::string who = source.display();
  source.sha256 = hex_text(text_at(json, "sha256", who), 64, "sha256", who);
  source.commit = hex_text(text_at(json, "commit", who), 40, "commit", who);
  source.unpack = unpack_named(text_at(json, "unpack", who), who);
  source.manifest = parse_manifest_source(json.value("manifest", Json()), who);
  UrlPath& place = source.address.place;
  // A web server lists no folders, so an address is a folder only with a manifest of its content.
  if (source.address.scheme == Scheme::Http) place.is_folder &= source.manifest.is_given();
  if (source.address.scheme == Scheme::Git) place.is_folder = false;
  validate(source, who);
  if (source.address.scheme == Scheme::Git) source.unpack = Unpack::Tar;  // from `git archive`
  source.name = text_at(json, "name", who);
  const bool is_pattern = !place.pattern.empty();
  if (source.name.empty() && !is_pattern) source.name = default_name(source);
  if ((source.name.empty() && !is_pattern) || source.name == "." || source.name == ".." ||
      source.name.find('/') != std::string::npos) {
    fail(who, "name: '" + source.name + "' is not a file name; give one");
  }
  return source;
}

}  // namespace

std::string name(Unpack unpack) { return std::string(kUnpackNames[size_t(unpack)].first); }

std::string unpacked_name(std::string file, Unpack unpack) {
  const auto without = [&](std::string_view ending) {
    if (file.size() > ending.size() && file.ends_with(ending)) {
      file.resize(file.size() - ending.size());
    }
  };
  switch (unpack) {
    case Unpack::None:
      break;
    case Unpack::Gzip:
      without(".gz");
      break;
    case Unpack::Zip:
      without(".zip");
      break;
    case Unpack::Tar:
      for (const char* ending :
           {".gz", ".xz", ".bz2", ".zst", ".tgz", ".txz", ".tbz2", ".tbz", ".tzst", ".tar"}) {
        without(ending);
      }
      break;
  }
  return file;
}

Request parse_request(const Json& with) {
  const Json sources = with.value("sources", Json());
  if (!sources.is_array() || sources.empty()) {
    throw Error(Errc::InvalidInput, "sources: must be a list of at least one {url: …}");
  }
  Request request;
  std::set<std::string> names;
  for (const Json& json : sources) {
    request.sources.push_back(parse_source(json, request.sources.size() + 1));
    const Source& source = request.sources.back();
    if (!source.name.empty() && !names.insert(source.name).second) {
      fail(source.display(),
           "another source is called '" + source.name + "', too; give one of them a name:");
    }
  }
  request.limits = parse_limits(with);
  return request;
}

}  // namespace dlflow::steps
