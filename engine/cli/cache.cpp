#include <cstdio>

#include "base/error.h"
#include "base/sha256.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/workflow_argument.h"
#include "engine/container/image_store.h"
#include "engine/container/tree.h"
#include "engine/plan/plan.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;

struct CacheArguments {
  std::string profile = "local";
  std::string older_than = "30d";
  bool dry_run = false;
};

std::shared_ptr<CacheArguments> add_arguments(CLI::App& command) {
  auto arguments = std::make_shared<CacheArguments>();
  command.add_option("--profile", arguments->profile, "the cluster whose cache is meant")
      ->type_name("NAME")
      ->capture_default_str();
  return arguments;
}

ImageStore store_of(const CacheArguments& arguments) {
  return ImageStore(cache_directory(load_profile(arguments.profile)));
}

milliseconds unused_for(const StoredImage& image) {
  const auto age = std::filesystem::file_time_type::clock::now() - ImageStore::last_used(image);
  return std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(age));
}

/// "sha256:1f2e…" as far as it can be told apart by eye.
std::string short_digest(const StoredImage& image) { return image.digest.substr(7, 12); }

void list_images(Session& session, const CacheArguments& arguments) {
  Json list = Json::array();
  if (!session.json && !session.quiet) std::printf("IMAGE         SIZE       UNUSED   FROM\n");
  for (const StoredImage& image : store_of(arguments).list()) {
    const milliseconds unused = unused_for(image);
    if (session.json) {
      list.push_back({{"digest", image.digest},
                      {"from", image.from},
                      {"bytes", image.bytes},
                      {"unused_s", unused.count() / 1000},
                      {"directory", image.folder.string()}});
    } else {
      std::printf("%s  %-9s  %-7s  %s\n", short_digest(image).c_str(),
                  format_size(image.bytes).c_str(), format_age(unused).c_str(), image.from.c_str());
    }
  }
  if (session.json) print_json(list);
}

void collect_garbage(Session& session, const CacheArguments& arguments) {
  const std::chrono::seconds age = parse_duration(arguments.older_than);
  ImageStore store = store_of(arguments);
  uint64_t bytes = 0;
  size_t removed = 0;
  for (const StoredImage& image : store.list()) {
    if (unused_for(image) < age) continue;
    const bool gone = arguments.dry_run || store.remove(image);
    if (!session.quiet) {
      std::printf("%s  %s  %s\n", short_digest(image).c_str(), image.from.c_str(),
                  gone ? format_size(image.bytes).c_str() : "is in use, and stays");
    }
    if (!gone) continue;
    bytes += image.bytes;
    ++removed;
  }
  std::printf("%zu image%s, %s%s.\n", removed, removed == 1 ? "" : "s", format_size(bytes).c_str(),
              arguments.dry_run ? " would go" : " removed");
}

void verify_images(Session& session, const CacheArguments& arguments) {
  size_t damaged = 0;
  const auto images = store_of(arguments).list();
  for (const StoredImage& image : images) {
    const TreeHash now = hash_tree(
        image.rootfs, [](const std::filesystem::path& file) { return sha256_file(file); });
    if (now.sha256 == image.tree_sha256) continue;
    ++damaged;
    std::printf("%s  %s is not what was unpacked; `rm -rf %s`, and the next job unpacks it again\n",
                short_digest(image).c_str(), image.from.c_str(), image.folder.c_str());
  }
  if (damaged > 0) session.status = kStepFailed;
  if (!session.quiet || damaged > 0) {
    std::printf("%zu of %zu images are as they were unpacked.\n", images.size() - damaged,
                images.size());
  }
}

}  // namespace

void add_cache(CLI::App& app, Session& session) {
  CLI::App* cache = add_command(app, "cache", "Look at the images that are unpacked in the cache.",
                                "  dlflow cache list\n"
                                "  dlflow cache gc --older-than 7d");
  cache->require_subcommand(1);
  cache->fallthrough();

  CLI::App* list = add_command(*cache, "list", "List the images, the longest unused first.",
                               "  dlflow cache list\n"
                               "  dlflow cache list --profile alpha --json");
  add_json_option(*list, session);
  const auto list_arguments = add_arguments(*list);
  list->callback([&session, list_arguments] { list_images(session, *list_arguments); });

  CLI::App* gc = add_command(*cache, "gc", "Remove images that no job has used for a while.",
                             "  dlflow cache gc --older-than 7d\n"
                             "  dlflow cache gc --dry-run");
  const auto gc_arguments = add_arguments(*gc);
  gc->add_option("--older-than", gc_arguments->older_than, "unused for so long")
      ->type_name("DURATION")
      ->capture_default_str();
  gc->add_flag("-n,--dry-run", gc_arguments->dry_run, "say what would go; remove nothing");
  gc->callback([&session, gc_arguments] { collect_garbage(session, *gc_arguments); });

  CLI::App* verify = add_command(*cache, "verify", "Hash the images again, and say what changed.",
                                 "  dlflow cache verify\n"
                                 "  dlflow cache verify --profile alpha");
  const auto verify_arguments = add_arguments(*verify);
  verify->callback([&session, verify_arguments] { verify_images(session, *verify_arguments); });
}

}  // namespace dlflow
