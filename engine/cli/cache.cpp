#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "base/sha256.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/container/image_store.h"
#include "engine/container/tree.h"
#include "engine/plan/plan.h"
#include "engine/supervisor/shared_results.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;

struct CacheArguments {
  std::string profile = default_profile();
  std::string older_than = "30d";
  bool dry_run = false;
};

std::shared_ptr<CacheArguments> add_arguments(CLI::App& command) {
  auto arguments = std::make_shared<CacheArguments>();
  add_value(command, "--profile", "NAME", arguments->profile, "profile of the cluster")
      ->capture_default_str();
  return arguments;
}

std::filesystem::path cache_of(const CacheArguments& arguments) {
  return cache_directory(load_profile(arguments.profile));
}

/// An item of the cache that may be removed, since jobs can make it again.
struct CacheItem {
  std::string kind;    ///< "image" or "result"
  std::string digest;  ///< in hexadecimal
  std::string from;
  uint64_t bytes;
  milliseconds unused;
  std::filesystem::path folder;
  std::function<bool()> remove;  ///< returns false if it is in use, or another user's

  /// A prefix of the digest, long enough for people.
  std::string name() const { return digest.substr(0, 12); }
};

milliseconds since(std::filesystem::file_time_type time) {
  const auto age = std::filesystem::file_time_type::clock::now() - time;
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(age));
}

/// Images and shared results, least recently used first.
std::vector<CacheItem> items_of(const CacheArguments& arguments) {
  const std::filesystem::path cache = cache_of(arguments);
  std::vector<CacheItem> items;
  for (const StoredImage& image : ImageStore(cache).list()) {
    items.push_back({"image", image.digest.hex(), image.from, image.bytes,
                     since(ImageStore::last_used(image)), image.folder,
                     [cache, image] { return ImageStore(cache).remove(image); }});
  }
  for (const StoredResult& result : list_shared_results(cache)) {
    items.push_back({"result", result.fingerprint, result.run + " " + result.job, result.bytes,
                     since(result.last_used), result.folder,
                     [result] { return remove_shared_result(result); }});
  }
  std::ranges::stable_sort(items, std::ranges::greater(), &CacheItem::unused);
  return items;
}

Json to_json(const CacheItem& item) {
  return {{"kind", item.kind},
          {"digest", (item.kind == "image" ? "sha256:" : "") + item.digest},
          {"from", item.from},
          {"bytes", item.bytes},
          {"unused_s", item.unused.count() / 1000},
          {"directory", item.folder.string()}};
}

void list_items(Session& session, const CacheArguments& arguments) {
  Json list = Json::array();
  if (!session.json && !session.quiet) {
    std::printf("KIND    DIGEST        SIZE       UNUSED   FROM\n");
  }
  for (const CacheItem& item : items_of(arguments)) {
    if (session.json) {
      list.push_back(to_json(item));
    } else {
      std::printf("%-6s  %s  %-9s  %-7s  %s\n", item.kind.c_str(), item.name().c_str(),
                  format_size(item.bytes).c_str(), format_age(item.unused).c_str(),
                  item.from.c_str());
    }
  }
  if (session.json) print_json(list);
}

void collect_garbage(Session& session, const CacheArguments& arguments) {
  const std::chrono::seconds age = parse_duration(arguments.older_than);
  uint64_t bytes = 0;
  Json list = Json::array();
  std::map<std::string, size_t> removed = {{"image", 0}, {"result", 0}};
  for (const CacheItem& item : items_of(arguments)) {
    if (item.unused < age) continue;
    const bool gone = arguments.dry_run || item.remove();
    if (session.json && gone) list.push_back(to_json(item));
    if (!session.quiet && !session.json) {
      std::printf("%-6s  %s  %s  %s\n", item.kind.c_str(), item.name().c_str(), item.from.c_str(),
                  gone ? format_size(item.bytes).c_str() : "is in use, or not yours: kept");
    }
    if (!gone) continue;
    bytes += item.bytes;
    ++removed[item.kind];
  }
  if (session.json) {
    return print_json(
        {{"removed", std::move(list)}, {"bytes", bytes}, {"dry_run", arguments.dry_run}});
  }
  std::printf("%s and %s, %s%s.\n", plural(removed["image"], "image").c_str(),
              plural(removed["result"], "result").c_str(), format_size(bytes).c_str(),
              arguments.dry_run ? " would go" : " removed");
}

void verify_images(Session& session, const CacheArguments& arguments) {
  size_t damaged = 0;
  Json list = Json::array();
  const auto images = ImageStore(cache_of(arguments)).list();
  for (const StoredImage& image : images) {
    const TreeHash now = hash_tree(
        image.rootfs, [](const std::filesystem::path& file) { return sha256_file(file); });
    if (now.sha256 == image.tree_sha256) continue;
    ++damaged;
    list.push_back({{"from", image.from}, {"directory", image.folder.string()}});
    if (session.json) continue;
    std::printf(
        "%s has changed since it was unpacked; `rm -rf %s`, and the next job unpacks it again\n",
        image.from.c_str(), image.folder.c_str());
  }
  if (damaged > 0) session.status = kStepFailed;
  if (session.json) {
    return print_json({{"images", images.size()}, {"damaged", std::move(list)}});
  }
  if (!session.quiet || damaged > 0) {
    std::printf("%zu of %zu images are unchanged.\n", images.size() - damaged, images.size());
  }
}

}  // namespace

void add_cache(CLI::App& app, Session& session) {
  CLI::App* cache = add_command(
      app, "cache", "List, clean and verify the cache of images and shared results.", R"(
  dlflow cache list
  dlflow cache gc --older-than 7d)");
  cache->require_subcommand(1);
  cache->fallthrough();

  CLI::App* list =
      add_command(*cache, "list", "List images and results, the longest unused first.", R"(
  dlflow cache list
  dlflow cache list --profile alpha --json)");
  add_json_option(*list, session);
  const auto list_arguments = add_arguments(*list);
  list->callback([&session, list_arguments] { list_items(session, *list_arguments); });

  CLI::App* gc =
      add_command(*cache, "gc", "Remove images and results that no job has used for some time.", R"(
  dlflow cache gc --older-than 7d
  dlflow cache gc --dry-run)");
  const auto gc_arguments = add_arguments(*gc);
  add_value(*gc, "--older-than", "TIME", gc_arguments->older_than,
            "remove what no job has used for this long")
      ->capture_default_str();
  gc->add_flag("-n,--dry-run", gc_arguments->dry_run, "show what would be removed; remove nothing");
  add_json_option(*gc, session);
  gc->callback([&session, gc_arguments] { collect_garbage(session, *gc_arguments); });

  CLI::App* verify =
      add_command(*cache, "verify", "Hash the images again and report changed ones.", R"(
  dlflow cache verify
  dlflow cache verify --profile alpha)");
  const auto verify_arguments = add_arguments(*verify);
  add_json_option(*verify, session);
  verify->callback([&session, verify_arguments] { verify_images(session, *verify_arguments); });
}

}  // namespace dlflow
