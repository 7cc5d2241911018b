#include "engine/container/registry.h"

#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/http_request.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/container/image_contents.h"
#include "engine/container/registry_login.h"
#include "engine/container/runtime.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifests =
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";

/// The maximum size of a manifest, as in registries; a token takes a few hundred bytes.
constexpr uint64_t kMaxManifestBytes = uint64_t{4} << 20;

struct Answer {
  int status = 0;
  std::string challenge;  ///< from WWW-Authenticate
};

/// "h:80" of "http://h:80/x".
std::string host_of(const std::string& url) {
  const size_t begin = url.find("://") + 3;
  return url.substr(begin, url.find('/', begin) - begin);
}

class Registry {
 public:
  Registry(const std::string& name, const fs::path& scratch)
      : name_(registry_name(name)), shown_("docker://" + name), scratch_(scratch) {}

  /// Writes the response for `path` of the repository ("manifests/latest") to `file`, unless it has
  /// more than `max_bytes`.
  void get(const std::string& path, const fs::path& file, uint64_t max_bytes) {
    const std::string url = name_.server + "/v2/" + name_.repository + "/" + path;
    Answer answer = request(url, file, max_bytes, authorization_);
    if (answer.status == 401 && authorization_.empty()) {
      authorization_ = authorization_for(answer.challenge);
      answer = request(url, file, max_bytes, authorization_);
    }
    if (answer.status == 200) return check_size(url, file, max_bytes);
    if (answer.status == 404 || answer.status == 401 || answer.status == 403) {
      throw Error(Errc::NotFound,
                  name_.server + " has no image " + shown_ +
                      (login_.empty() ? " that everybody may read" : " that you may read") +
                      " (status " + std::to_string(answer.status) + " for " + path + ")" +
                      (login_.empty() && answer.status != 404
                           ? "; for a private image, type `docker login` or `podman login` first: "
                             "dlflow reads the password that it stores"
                           : ""));
    }
    throw Error(Errc::Unavailable, name_.server + " answers with status " +
                                       std::to_string(answer.status) + " for " + url);
  }

  const RegistryName& name() const { return name_; }

 private:
  /// \param authorization  "Bearer …", "Basic …" or empty; sent only to the host of `url`
  Answer request(const std::string& url, const fs::path& file, uint64_t max_bytes,
                 const std::string& authorization) const {
    const fs::path headers = scratch_ / "headers";
    const std::string host = host_of(url);
    HttpRequest request{
        .url = url,
        .headers = {std::string("Accept: ") + kManifests},
        .options = {"--dump-header", headers, "--output", file, "--write-out", "%{http_code}"},
        .follows = true,
        .needs_encryption = !is_loopback(host)};
    if (!authorization.empty()) request.headers.push_back("Authorization: " + authorization);
    if (!request.needs_encryption) append(request.options, stay_on_this_machine(host));
    HttpCall call = http_call(request);
    // The limit covers the file of headers, too, since a server may send any number of them.
    const Command command{.argv = std::move(call.argv),
                          .environment = current_environment(),
                          .max_file_bytes = std::max(max_bytes, kMaxManifestBytes)};
    const Output output =
        run(command, OutputOptions{.input = call.settings, .collect_errors = true});
    if (output.status.signal == SIGXFSZ) throw_too_much(url, command.max_file_bytes);
    if (output.status.code != 0) {
      throw Error(Errc::Unavailable,
                  "cannot fetch " + shown_ + ": " + std::string(trim(output.errors)));
    }
    return {std::atoi(output.text.c_str()),
            challenge_in(fs::exists(headers) ? read_file(headers, kMaxManifestBytes) : "")};
  }

  /// A token from the registry, requested with the user's login if any, or the login itself.
  std::string authorization_for(const std::string& challenge) const {
    const std::string basic = login_.empty() ? "" : "Basic " + login_;
    if (asks_for_password(challenge)) return basic;
    const std::string address = token_address(challenge, name_.repository, name_.server);
    if (address.empty()) return basic;
    const bool is_here = name_.server.starts_with("http://") && is_loopback(host_of(address));
    if (address.starts_with("http://") && !is_here) {
      throw Error(Errc::Corrupt, name_.server + " asks for a token request without encryption");
    }
    const fs::path file = scratch_ / "token";
    request(address, file, kMaxManifestBytes, basic);
    const std::string token = token_in(read_file(file, kMaxManifestBytes), name_.server);
    return token.empty() ? "" : "Bearer " + token;
  }

  /// request() leaves room for headers, so a small part may still be too large.
  void check_size(const std::string& url, const fs::path& file, uint64_t max_bytes) const {
    std::error_code none;
    if (fs::exists(file, none) && fs::file_size(file) > max_bytes) throw_too_much(url, max_bytes);
  }

  [[noreturn]] void throw_too_much(const std::string& url, uint64_t max_bytes) const {
    throw Error(Errc::Corrupt, name_.server + " sends more than the " + format_size(max_bytes) +
                                   " expected of " + url);
  }

  RegistryName name_;
  std::string shown_;
  fs::path scratch_;
  std::string login_ = registry_login(name_.server);
  std::string authorization_;
};

void check_content(const fs::path& file, const Digest& digest) {
  if (sha256_file(file) == digest.hex()) return;
  throw Error(Errc::Corrupt,
              "the registry's answer does not match " + digest.text() + "; try again");
}

/// Checks that all parts fit before the first transfer; the sizes in a manifest may be wrong.
void check_room(const std::vector<Blob>& blobs, const std::string& name, const fs::path& layout,
                uint64_t budget_bytes) {
  uint64_t bytes = 0;
  for (const Blob& blob : blobs) bytes += std::min(blob.bytes, UINT64_MAX - bytes);
  const std::string claim =
      "docker://" + name + " has parts of " + format_size(bytes) + " together";
  if (budget_bytes > 0 && bytes > budget_bytes) {
    throw Error(Errc::InvalidInput, claim + ", but the cache may hold " +
                                        format_size(budget_bytes) +
                                        "; raise cache_budget: of the profile, or take a smaller "
                                        "image");
  }
  std::error_code unknown;
  const fs::space_info space = fs::space(layout, unknown);
  if (unknown || bytes <= space.available) return;
  throw Error(Errc::InvalidInput, claim + ", and " + layout.string() + " has room for " +
                                      format_size(space.available) +
                                      "; make room (dlflow cache gc), or set paths.cache of the "
                                      "profile to a larger disk");
}

}  // namespace

RegistryName registry_name(const std::string& name) {
  RegistryName result{"https://registry-1.docker.io", name, "latest"};
  const size_t slash = name.find('/');
  const std::string host = name.substr(0, slash);
  const bool has_host =
      slash != name.npos && (host.find_first_of(".:") != host.npos || host == "localhost");
  if (has_host) {
    // As docker does, uses plain HTTP for a registry on this machine.
    result.server = (is_loopback(host) ? "http://" : "https://") +
                    (host == "docker.io" ? "registry-1.docker.io" : host);
    result.repository = name.substr(slash + 1);
  }
  const size_t colon = result.repository.rfind(':');
  if (colon != std::string::npos) {
    result.tag = result.repository.substr(colon + 1);
    result.repository.resize(colon);
  }
  const bool official = result.repository.find('/') == std::string::npos &&
                        result.server.ends_with("registry-1.docker.io");
  if (official) result.repository = "library/" + result.repository;
  return result;
}

Digest registry_digest(const std::string& name) {
  const TemporaryFolder scratch(fs::temp_directory_path() / "dlflow-registry");
  Registry registry(name, scratch.path());
  const fs::path file = scratch.path() / "manifest";
  registry.get("manifests/" + registry.name().tag, file, kMaxManifestBytes);
  const std::string manifest = read_file(file, kMaxManifestBytes);
  return is_image_index(manifest) ? manifest_for_this_machine(manifest, "docker://" + name)
                                  : Digest::of_hex(sha256_hex(manifest));
}

void fetch_image(const std::string& name, const Digest& digest, const fs::path& layout,
                 uint64_t budget_bytes) {
  const TemporaryFolder scratch(fs::temp_directory_path() / "dlflow-registry");
  Registry registry(name, scratch.path());
  make_directories(layout / "blobs/sha256");
  const fs::path file = blob_path(layout, digest);
  registry.get("manifests/" + digest.text(), file, kMaxManifestBytes);
  check_content(file, digest);
  std::string manifest = read_file(file, kMaxManifestBytes);
  if (is_image_index(manifest)) {
    const Digest chosen = manifest_for_this_machine(manifest, "docker://" + name);
    registry.get("manifests/" + chosen.text(), blob_path(layout, chosen), kMaxManifestBytes);
    check_content(blob_path(layout, chosen), chosen);
    manifest = read_file(blob_path(layout, chosen), kMaxManifestBytes);
  }
  const std::vector<Blob> blobs = blobs_of(manifest);
  check_room(blobs, name, layout, budget_bytes);
  for (const auto& [blob, bytes] : blobs) {
    registry.get("blobs/" + blob.text(), blob_path(layout, blob), bytes);
    check_content(blob_path(layout, blob), blob);
  }
}

}  // namespace dlflow
