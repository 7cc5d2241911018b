#include "steps/transfer/address.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::steps {
namespace {

[[noreturn]] void fail(const Address& address, const std::string& what) {
  throw Error(Errc::InvalidInput, address.display() + ": " + what);
}

constexpr std::pair<std::string_view, Scheme> kSchemes[] = {
    {"file://", Scheme::File},   {"http://", Scheme::Http},     {"https://", Scheme::Http},
    {"ssh://", Scheme::Ssh},     {"rclone://", Scheme::Rclone}, {"git+https://", Scheme::Git},
    {"git+ssh://", Scheme::Git}, {"git+file://", Scheme::Git},  {"s3://", Scheme::Rclone},
    {"gs://", Scheme::Rclone},   {"hf://", Scheme::Hub},
};

/// Checks names that reach a command line: none may look like an option or other syntax.
void validate_name(const Address& address, std::string_view name, std::string_view further,
                   const char* what) {
  const bool valid =
      !name.empty() && name[0] != '-' &&
      std::all_of(name.begin(), name.end(), [&](unsigned char letter) {
        return std::isalnum(letter) != 0 || further.find(char(letter)) != std::string_view::npos;
      });
  if (!valid) fail(address, "'" + std::string(name) + "' is not the name of a " + what);
}

void read_port(Address& address) {
  const size_t colon = address.host.rfind(':');
  if (colon == std::string::npos || address.host.ends_with(']')) return;  // IPv6 such as [::1]
  const std::string_view digits = std::string_view(address.host).substr(colon + 1);
  const auto port = number_from<int>(digits);
  if (!port || *port < 1 || *port > 65535) {
    fail(address, "'" + std::string(digits) + "' is not a port");
  }
  address.port = *port;
  address.host.resize(colon);
}

void read_ssh(Address& address) {
  const size_t at = address.host.rfind('@');
  if (at != std::string::npos && address.host.find(':') < at) {
    fail(address, "an ssh address has no password; use a key (ssh-copy-id HOST)");
  }
  read_port(address);
  const std::string host = at == std::string::npos ? address.host : address.host.substr(at + 1);
  if (at != std::string::npos) validate_name(address, address.host.substr(0, at), "._-", "user");
  const bool is_numeric = host.starts_with('[') && host.ends_with(']');
  validate_name(address, host, is_numeric ? "[]:.%" : "._-", "host");
  std::string& path = address.place.path;
  if (path == "/~" || path.starts_with("/~/")) path = path == "/~" ? "." : "./" + path.substr(3);
}

/// REMOTE/PATH is relative to the remote's start folder, REMOTE//PATH to its root if it has one.
void read_rclone(Address& address) {
  validate_name(address, address.host, "._+@-", "remote (see `rclone listremotes`)");
  address.place.path.erase(0, 1);
}

/// Object stores that rclone can reach without configuration: it finds credentials in the places of
/// the store's own tools. The bucket is the first part of the path.
void read_bucket(Address& address) {
  validate_name(address, address.host, "._-", "bucket");
  const std::string bucket = address.host;
  address.place.path = bucket + address.place.path;
  if (address.url.starts_with("gs://")) {
    address.host = ":gcs,env_auth=true";
    return;
  }
  address.host = ":s3,provider=AWS,env_auth=true";
  const char* const endpoint = std::getenv("AWS_ENDPOINT_URL");
  if (endpoint == nullptr || *endpoint == '\0') return;
  if (std::string_view(endpoint).find_first_of("\"'") != std::string_view::npos) {
    fail(address, "AWS_ENDPOINT_URL has a quote in it, which no address has");
  }
  address.host = ":s3,provider=Other,env_auth=true,endpoint=\"" + std::string(endpoint) + "\"";
}

/// hf://OWNER/NAME[@REVISION]/PATH for models, hf://datasets/… or hf://spaces/… for others.
void read_hub(Address& address, std::string_view rest) {
  const bool has_kind = rest.starts_with("datasets/") || rest.starts_with("spaces/");
  size_t end = 0;
  for (int parts = has_kind ? 3 : 2; parts > 0 && end != rest.npos; --parts) {
    end = rest.find('/', end == 0 ? 0 : end + 1);
  }
  if (end == rest.npos) {
    fail(
        address,
        "names a repository and a file in it: hf://OWNER/NAME/FILE, hf://datasets/OWNER/NAME/FILE, "
        "or a folder, with / at its end; a revision follows the name: NAME@v1.0");
  }
  address.host = rest.substr(0, end);
  validate_name(address, address.host, "._-/@%", "repository");
  address.place = parse_url_path(rest.substr(end));
  if (address.place.path.starts_with('/')) address.place.path.erase(0, 1);
}

void read_git(const Address& address) {
  const size_t at = address.host.rfind('@');
  if (at != std::string::npos && address.host.find(':') < at) {
    fail(address,
         "a password in it would be seen in lists of processes; let git ask its credential helper "
         "(git config credential.helper), or use git+ssh://");
  }
}

}  // namespace

Address parse_address(const std::string& url) {
  Address address{.scheme = {}, .url = url, .host = {}, .place = {}};
  const auto* const known =
      std::find_if(std::begin(kSchemes), std::end(kSchemes),
                   [&](const auto& scheme) { return url.starts_with(scheme.first); });
  if (known == std::end(kSchemes)) {
    fail(address,
         "is not an address; write file:///…, https://…, ssh://HOST/…, rclone://REMOTE/…, "
         "s3://BUCKET/…, gs://BUCKET/…, hf://datasets/OWNER/NAME/… or git+https://…");
  }
  if (std::any_of(url.begin(), url.end(),
                  [](unsigned char letter) { return letter <= ' ' || letter == 0x7f; })) {
    fail(address, "an address has no white space; write %20 for a space");
  }
  address.scheme = known->second;
  const std::string_view rest = std::string_view(url).substr(known->first.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  address.host = rest.substr(0, slash);
  if (address.scheme == Scheme::Http || address.scheme == Scheme::Git) {
    const std::string_view path = rest.substr(slash, rest.find_first_of("?#", slash) - slash);
    address.place = {percent_decoded(path), path.ends_with('/'), ""};
  } else {
    address.place = parse_url_path(rest.substr(slash));
  }
  const bool has_control = std::any_of(address.place.path.begin(), address.place.path.end(),
                                       [](unsigned char letter) { return letter < ' '; });
  if (has_control) fail(address, "a path with line breaks cannot be staged");
  switch (address.scheme) {
    case Scheme::File:
      if (!parse_file_url(url)) {
        fail(address,
             "an address of a local file has three slashes and its whole path: file:///data/x.gz");
      }
      address.host.clear();
      break;
    case Scheme::Ssh:
      read_ssh(address);
      break;
    case Scheme::Rclone:
      if (url.starts_with("rclone://")) {
        read_rclone(address);
      } else {
        read_bucket(address);
      }
      break;
    case Scheme::Hub:
      read_hub(address, rest);
      break;
    case Scheme::Git:
      read_git(address);
      break;
    case Scheme::Http:
      break;
  }
  return address;
}

Address file_in(const Address& folder, const std::string& name) {
  Address file = folder;
  const bool is_web = folder.scheme == Scheme::Http;  // elsewhere names may contain ? and #
  const size_t end =
      is_web ? std::min(folder.url.find_first_of("?#"), folder.url.size()) : folder.url.size();
  const size_t fragment = std::min(folder.url.find('#', end), folder.url.size());
  file.url = folder.url.substr(0, folder.url.rfind('/', end) + 1) + percent_encoded(name) +
             folder.url.substr(end, fragment - end);
  file.place = {folder.place.path, false, ""};
  if (!file.place.path.empty() && !file.place.path.ends_with('/')) file.place.path += '/';
  file.place.path += name;
  return file;
}

}  // namespace dlflow::steps
