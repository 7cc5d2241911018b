#include "steps/stage/expand.h"

#include <sys/stat.h>

#include "base/error.h"
#include "base/local_files.h"
#include "steps/stage/staged_source.h"
#include "steps/transfer/hub.h"
#include "steps/transfer/rclone.h"
#include "steps/transfer/rsync.h"

namespace dlflow::steps {
namespace {

std::vector<RemoteFile> list_local(const UrlPath& place) {
  std::vector<RemoteFile> files;
  for (const LocalFile& file : list_local_files(place)) {
    struct stat info {};
    if (::stat(file.path.c_str(), &info) != 0) {
      throw Error(Errc::NotFound, file.path.string() + ": there is no such file");
    }
    files.push_back({.name = file.name,
                     .bytes = uint64_t(info.st_size),
                     .executable = (info.st_mode & S_IXUSR) != 0});
  }
  return files;
}

/// Its content may be known already, and this is no part of it. False if it is not there.
bool is_executable(const Address& address) {
  struct stat info {};
  return address.scheme == Scheme::File && ::stat(address.place.path.c_str(), &info) == 0 &&
         (info.st_mode & S_IXUSR) != 0;
}

/// Of a server's folder, only a manifest says what is in it.
std::vector<RemoteFile> list_web(const Manifest* manifest) {
  if (manifest == nullptr) return {{.name = ""}};
  std::vector<RemoteFile> files;
  for (const auto& [name, hash] : *manifest) files.push_back({.name = name});
  return files;
}

std::vector<RemoteFile> list(const Address& address, const Manifest* manifest, Cache& cache) {
  switch (address.scheme) {
    case Scheme::File:
      return list_local(address.place);
    case Scheme::Http:
      return list_web(manifest);
    case Scheme::Ssh:
      return rsync_list(address, cache.new_file());
    case Scheme::Rclone:
      return rclone_list(address, cache.new_file());
    case Scheme::Hub:
      return hub_list(address, cache.new_file());
    case Scheme::Git:
      break;
  }
  return {{.name = ""}};
}

/// "FOLDER/a.gz" -> "FOLDER/a", as far as unpacking takes an ending away.
std::string placed_name(const Source& source, const std::string& listed) {
  const size_t slash = listed.rfind('/') + 1;  // 0 if there is none
  return (source.name.empty() ? "" : source.name + "/") + listed.substr(0, slash) +
         unpacked_name(listed.substr(slash), source.unpack);
}

}  // namespace

std::vector<Source> expand(const Source& source, const Manifest* manifest, Cache& cache,
                           const RetryPolicy& retry) {
  const bool is_one = source.address.place.is_file();
  if (is_one && find_staged(source, cache)) {
    Source one = source;
    one.listed.executable = is_executable(source.address);
    return {one};
  }
  std::vector<RemoteFile> files;
  with_retries(
      retry, [] { return uint64_t{0}; },
      [&] { files = list(source.address, is_one ? nullptr : manifest, cache); });
  if (is_one) {
    Source one = source;
    one.listed = files.front();
    if (one.sha256.empty()) one.sha256 = one.listed.sha256;
    return {one};
  }
  if (manifest != nullptr) {
    Listing found;
    for (const RemoteFile& file : files) found[file.name] = {};
    compare(found, *manifest, source.display());
  }
  std::vector<Source> sources;
  for (const RemoteFile& file : files) {
    sources.push_back({.address = file_in(source.address, file.name),
                       .sha256 = manifest == nullptr ? file.sha256 : manifest->at(file.name),
                       .commit = {},
                       .unpack = source.unpack,
                       .name = placed_name(source, file.name),
                       .manifest = {},
                       .listed = file});
  }
  return sources;
}

}  // namespace dlflow::steps
