#include "steps/transfer/hub.h"

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "steps/transfer/curl.h"
#include "steps/transfer/http.h"
#include "steps/transfer/listed_names.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

std::string variable_or(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string endpoint() {
  std::string url = variable_or("HF_ENDPOINT", "https://huggingface.co");
  while (url.ends_with('/')) url.pop_back();
  return url;
}

/// The Authorization header that identifies the user; empty without $HF_TOKEN.
std::string bearer() {
  const std::string token = variable_or("HF_TOKEN", "");
  for (const char letter : token) {
    if (uint8_t(letter) > ' ' && uint8_t(letter) < 127) continue;
    throw Error(Errc::InvalidInput, "HF_TOKEN is not a token: there is white space in it");
  }
  return token.empty() ? "" : "Bearer " + token;
}

/// The parts of "datasets/OWNER/NAME@REVISION".
struct Repository {
  std::string name;  ///< as in addresses of files
  std::string api;   ///< the same below /api/
  std::string revision = "main";
};

Repository repository_of(const Address& address) {
  Repository repository;
  repository.name = address.host;
  const size_t at = address.host.find('@');
  if (at != std::string::npos) {
    repository.name = address.host.substr(0, at);
    repository.revision = address.host.substr(at + 1);
  }
  const bool has_kind =
      repository.name.starts_with("datasets/") || repository.name.starts_with("spaces/");
  repository.api = (has_kind ? "" : "models/") + repository.name;
  return repository;
}

/// The folder whose listing contains the files of the address.
std::string listed_folder(const UrlPath& place) {
  if (!place.is_file()) return place.path;
  const size_t slash = place.path.rfind('/');
  return slash == std::string::npos ? "" : place.path.substr(0, slash);
}

/// One page of a list, and the address of the next.
struct Page {
  Json entries;
  std::string next;
};

Page read_page(const std::string& url, const Address& address, const fs::path& temporary) {
  const fs::path file = temporary.string() + ".list";
  const CurlResult result = run_curl(
      url, {"--output", file, "--max-time", "120"}, temporary, [](const HttpResponse&) {},
      bearer());
  if (result.exit_status != 0) throw curl_error(result, address.display());
  constexpr JsonLimits kLimits{.max_depth = 16, .max_bytes = size_t{1} << 28};
  Json entries = parse_json(read_file_if_exists(file).value_or(""), kLimits);
  std::error_code ignored;
  fs::remove(file, ignored);
  if (!entries.is_array()) {
    throw Error(Errc::InvalidInput,
                address.display() + ": the server's answer is not a list of files");
  }
  return {std::move(entries), result.response.next};
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The server has the SHA-256 of large files; for others it has git's hash.
RemoteFile listed_file(const Json& entry, const std::string& folder) {
  RemoteFile file{.name = text_at(entry, "path")};
  if (!folder.empty() && file.name.starts_with(folder + "/")) file.name.erase(0, folder.size() + 1);
  const auto bytes = entry.find("size");
  if (bytes != entry.end() && bytes->is_number_unsigned()) file.bytes = bytes->get<uint64_t>();
  file.version = text_at(entry, "oid");
  const auto large = entry.find("lfs");
  if (large != entry.end()) file.sha256 = text_at(*large, "oid");
  if (file.sha256.size() != 64) file.sha256.clear();
  return file;
}

/// git's hash of a content, which a hub returns as the ETag of a small file; else empty.
/// \param etag  with quotes, and with any suffix that a version has
std::string git_name(const std::string& etag) {
  constexpr size_t kDigits = 40;
  if (etag.find('"', 1) != kDigits + 1) return "";
  const std::string name = etag.substr(1, kDigits);
  return name.find_first_not_of("0123456789abcdef") == name.npos ? name : "";
}

}  // namespace

std::string hub_url(const Address& address) {
  const Repository repository = repository_of(address);
  return endpoint() + "/" + repository.name + "/resolve/" + repository.revision + "/" +
         percent_encoded(address.place.path);
}

std::vector<RemoteFile> hub_list(const Address& address, const fs::path& temporary) {
  constexpr int kMostPages = 10'000;
  const Repository repository = repository_of(address);
  const std::string folder = listed_folder(address.place);
  std::string url = endpoint() + "/api/" + repository.api + "/tree/" + repository.revision +
                    (folder.empty() ? "" : "/" + percent_encoded(folder)) +
                    (address.place.is_folder ? "?recursive=true" : "");
  std::vector<RemoteFile> files;
  for (int number = 0; number < kMostPages; ++number) {
    const Page page = read_page(url, address, temporary);
    for (const Json& entry : page.entries) {
      if (!entry.is_object() || text_at(entry, "type") != "file") continue;
      if (address.place.is_file() && text_at(entry, "path") != address.place.path) continue;
      files.push_back(listed_file(entry, folder));
    }
    if (page.next.empty()) return named_files(address, std::move(files));
    // A mirror may return the hub's own address, but only the mirror is asked and gets the token.
    const size_t place = page.next.find("/api/");
    if (place == std::string::npos) {
      throw Error(Errc::Unavailable, url + " continues at " + page.next +
                                         ", which is not a list of files; is HF_ENDPOINT a hub?");
    }
    url = endpoint() + page.next.substr(place);
  }
  throw Error(Errc::InvalidInput, "the list of " + repository.name + " has more than " +
                                      std::to_string(kMostPages) +
                                      " pages; name a folder of it, with a / at its end");
}

Downloaded hub_download(const DownloadRequest& request, Partial& partial, const fs::path& temporary,
                        const RetryPolicy& retry) {
  DownloadRequest over_https = request;
  over_https.address.url = hub_url(request.address);
  over_https.known_version.clear();  // git's hash, which download() compares
  over_https.authorization = bearer();
  Downloaded downloaded = http_download(over_https, partial, temporary, retry);
  const std::string name = git_name(downloaded.version);
  if (!name.empty() && name != request.listed.version) {  // the branch has moved
    throw Error(Errc::Corrupt, request.address.display() +
                                   " changed after the hub had listed it; run the step again");
  }
  downloaded.version = request.listed.version;
  return downloaded;
}

}  // namespace dlflow::steps
