#include "steps/stage/stage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/process.h"
#include "base/remove_tree.h"
#include "base/text.h"
#include "base/units.h"
#include "steps/environment/step_environment.h"
#include "steps/stage/cache.h"
#include "steps/stage/fetch.h"
#include "steps/stage/manifest.h"
#include "steps/stage/request.h"
#include "steps/stage/staged_source.h"
#include "steps/transfer/http.h"
#include "steps/transfer/hub.h"
#include "steps/transfer/parallel.h"
#include "steps/transfer/progress.h"
#include "steps/transfer/rclone.h"
#include "steps/transfer/rsync.h"
#include "steps/transfer/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

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

/// The mode is not part of the content, which may be cached already. False if there is no file.
bool is_executable(const Address& address) {
  struct stat info {};
  return address.scheme == Scheme::File && ::stat(address.place.path.c_str(), &info) == 0 &&
         (info.st_mode & S_IXUSR) != 0;
}

/// A web server lists no folder; only a manifest does.
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

/// "FOLDER/a.gz" -> "FOLDER/a", if unpacking removes the extension.
std::string placed_name(const Source& source, const std::string& listed) {
  const size_t slash = listed.rfind('/') + 1;  // 0 if there is none
  return (source.name.empty() ? "" : source.name + "/") + listed.substr(0, slash) +
         unpacked_name(listed.substr(slash), source.unpack);
}

/// The files of `source`, each as a source with its data from a listing; for one file, or a commit,
/// the source itself. `manifest` belongs to a folder or pattern and gives each file its hash; it
/// may be null. Throws Error if there are no files, or if they differ from the manifest.
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

Cache open_cache() {
  const std::string root = environment_variable("DLFLOW_CACHE");
  if (root.empty())
    throw Error(Errc::InvalidInput, "$DLFLOW_CACHE, which names the cache, is not set");
  const std::string budget = environment_variable("DLFLOW_CACHE_BUDGET");
  return Cache(root, budget.empty() ? 0 : parse_size(budget));
}

/// A file of a source, or a commit, on its way to the outputs.
struct Item {
  Source source;
  std::shared_ptr<const Manifest> contents = {};  ///< the archive's declared files, if any
  std::optional<StagedSource> staged = {};
};

/// All files of all sources, listed and compared with the manifests before the first is fetched.
std::vector<Item> list_items(const Request& request, Cache& cache) {
  std::vector<std::vector<Item>> lists(request.sources.size());
  for_each_parallel(lists.size(), request.limits.threads(lists.size()), [&](size_t i) {
    const Source& source = request.sources[i];
    std::shared_ptr<const Manifest> manifest;
    if (source.manifest.is_given()) {
      manifest = std::make_shared<Manifest>(load_manifest(source.manifest, cache, {}));
    }
    const bool is_archive = source.address.place.is_file();
    for (Source& file : expand(source, manifest.get(), cache, RetryPolicy{})) {
      lists[i].push_back({.source = std::move(file), .contents = is_archive ? manifest : nullptr});
    }
  });
  std::vector<Item> items;
  for (std::vector<Item>& list : lists) std::move(list.begin(), list.end(), back_inserter(items));
  return items;
}

/// Throws unless all items can lie below `data`: no name occurs twice or is a folder of another.
void check_names(const std::vector<Item>& items) {
  std::set<std::string> names;
  for (const auto& [source, contents, staged] : items) {
    if (names.insert(source.name).second) continue;
    throw Error(Errc::InvalidInput, source.display() + ": another file is called '" + source.name +
                                        "', too; give one of their sources a name:");
  }
  for (const auto& [source, contents, staged] : items) {
    for (fs::path folder = fs::path(source.name).parent_path(); !folder.empty();
         folder = folder.parent_path()) {
      if (!names.contains(folder.string())) continue;
      throw Error(Errc::InvalidInput, source.display() + ": '" + folder.string() +
                                          "' is a file of another source; give one a name:");
    }
  }
}

/// Finds cached items and gives `progress` the size of every file, so that it can show a fraction.
void measure(std::vector<Item>& items, size_t threads, Cache& cache, Progress& progress) {
  for_each_parallel(items.size(), threads, [&](size_t i) {
    Source& source = items[i].source;
    items[i].staged = find_staged(source, cache);
    std::optional<uint64_t>& bytes = source.listed.bytes;
    if (items[i].staged) bytes = items[i].staged->bytes();
    if (!bytes && source.address.scheme == Scheme::Http) {
      bytes = http_size(source.address, cache.new_file());
    }
    if (bytes) progress.set_total(i, *bytes);
  });
}

void stage_item(Item& item, Cache& cache, const FetchOptions& options) {
  const bool was_cached = item.staged.has_value();
  if (!was_cached) item.staged = stage_source(item.source, cache, options);
  if (item.contents) compare(item.staged->listing, *item.contents, item.source.display());
  std::printf("%s: %s%s\n", escaped(item.source.name).c_str(),
              format_size(item.staged->bytes()).c_str(), was_cached ? ", from the cache" : "");
  std::fflush(stdout);
}

/// Brings all items into the cache.
void stage_all(std::vector<Item>& items, const Request& request, Cache& cache, Progress& progress) {
  const TransferLimits& limits = request.limits;
  measure(items, limits.threads(items.size()), cache, progress);
  for_each_parallel(items.size(), limits.threads(items.size()), [&](size_t i) {
    FetchOptions options{.bytes_per_second = limits.share(items.size())};
    options.progress = [&, i](uint64_t bytes, std::optional<uint64_t> total_bytes) {
      if (total_bytes) progress.set_total(i, *total_bytes);
      progress.set_done(i, bytes);
    };
    stage_item(items[i], cache, options);
    progress.complete(i);
  });
}

/// Creates OUTPUTS/data, completely or not at all.
void place_all(const std::vector<Item>& items, const fs::path& outputs) {
  const fs::path temporary = outputs / "data.tmp";
  const fs::path data = outputs / "data";
  std::error_code ignored;
  remove_tree(temporary, ignored);
  remove_tree(data, ignored);
  try {
    make_directories(temporary);
    for (const Item& item : items) place(*item.staged, temporary, item.source.name);
    if (::rename(temporary.c_str(), data.c_str()) != 0) {
      throw_errno("cannot write " + data.string(), errno);
    }
  } catch (...) {
    remove_tree(temporary, ignored);
    throw;
  }
}

/// All files with their names below `data`.
Listing combine(const std::vector<Item>& items) {
  Listing all;
  for (const Item& item : items) {
    for (const auto& [name, file] : item.staged->listing) {
      all[item.source.name + (name.empty() ? "" : "/" + name)] = file;
    }
  }
  return all;
}

bool is_verified(const Source& source) {
  return !source.pin().empty() || source.manifest.is_given();
}

void stage() {
  const StepEnvironment environment = read_step_environment();
  const Request request = parse_request(environment.with);
  Cache cache = open_cache();
  std::vector<Item> items = list_items(request, cache);
  check_names(items);
  Progress progress(environment.metrics, items.size());
  stage_all(items, request, cache, progress);
  place_all(items, environment.outputs);

  const Listing all = combine(items);
  uint64_t bytes = 0;
  for (const auto& [name, file] : all) bytes += file.bytes;
  const bool all_verified =
      std::all_of(request.sources.begin(), request.sources.end(), is_verified);
  write_outputs(environment, {{"path", {{"value", "data"}, {"sha256", hash_of(all)}}}});
  write_summary(environment, {{"bytes", bytes}, {"files", all.size()}});
  progress.finish(format_size(bytes) + " staged, " + format_count(all.size()) +
                  (all.size() == 1 ? " file" : " files") + (all_verified ? " verified" : ""));
}

}  // namespace

int stage_main() { return run_transfer_step(stage, "what was transferred"); }

}  // namespace dlflow::steps
