#include "engine/cli/images.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/process.h"
#include "engine/container/image_lock.h"
#include "engine/container/image_source.h"
#include "engine/container/image_store.h"
#include "engine/container/runtime.h"
#include "engine/plan/layout.h"
#include "engine/run/batch_systems.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

std::set<std::string> used_images(const Workflow& workflow) {
  std::set<std::string> used;
  for (const Step& step : workflow.steps) {
    if (!step.image.empty()) used.insert(step.image);
  }
  return used;
}

ImageSource source_of(const Workflow& workflow, const Image& image) {
  return image_source(image.from, fs::absolute(workflow.file).parent_path());
}

/// Where a job would fail only once it runs.
void check_runtime(const Workflow& workflow, const Image& image, const Profile& profile) {
  const ContainerSettings& container = profile.container;
  const std::string where = profile.file.empty() ? "the built-in profile 'local'" : profile.file;
  if (container.runtime == "none") {
    throw_at_image(workflow, image,
                   where + " runs no containers; set container.runtime to what this cluster has (" +
                       "docs/user/containers.md lists them), or take the steps' `image:` out");
  }
  const bool may_be_elsewhere = is_batch_system(profile.scheduler) || !profile.setup.empty();
  if (may_be_elsewhere) return;
  const std::string program = container.command.empty()
                                  ? std::string(find_runtime(container.runtime)->program)
                                  : container.command.front();
  const char* const path = std::getenv("PATH");
  if (program.find('/') != program.npos || find_program(program, path == nullptr ? "" : path))
    return;
  throw_at_image(workflow, image,
                 "there is no program '" + program + "' here, which container.runtime, " +
                     container.runtime + ", of " + where + " needs; install it (" +
                     std::string(find_runtime(container.runtime)->package) +
                     ") or choose another runtime");
}

/// What the file and its lock say that the image is; empty: nothing.
std::string wanted_digest(const Workflow& workflow, const Image& image, const ImageLock& lock,
                          std::string& by) {
  if (!image.digest.empty()) {
    by = "`digest:` says";
    return image.digest;
  }
  const auto locked = lock.find(image.name);
  if (locked == lock.end() || locked->second.from != image.from) return "";
  by = image_lock_file(workflow.file).string() + " says";
  return locked->second.digest;
}

void pin(const Workflow& workflow, Image& image, const ImageLock& lock, FileHashes& hashes) {
  ImageSource source = source_of(workflow, image);
  std::string by;
  const std::string wanted = wanted_digest(workflow, image, lock, by);
  if (source.kind == ImageSource::Kind::Registry && source.digest.empty()) source.digest = wanted;
  std::string now;
  try {
    now = image_digest(source, [&](const fs::path& file) { return hashes.sha256(file); });
  } catch (const Error& error) {
    throw_at_image(workflow, image, error.what());
  }
  if (!wanted.empty() && wanted != now) {
    throw_at_image(workflow, image,
                   image.from + " is " + now + " now, and " + by + " " + wanted +
                       "; restore it, or if it is meant, " +
                       (image.digest.empty() ? "`dlflow lock " + workflow.file + "`"
                                             : std::string("change `digest:`")));
  }
  image.digest = now;
}

}  // namespace

void throw_at_image(const Workflow& workflow, const Image& image, const std::string& message) {
  throw_at(workflow, image.location, "image '" + image.name + "': " + message);
}

void pin_images(Workflow& workflow, const Profile& profile, FileHashes& hashes) {
  const std::set<std::string> used = used_images(workflow);
  if (used.empty()) return;
  const ImageLock lock = read_image_lock(image_lock_file(workflow.file));
  for (Image& image : workflow.images) {
    if (!used.contains(image.name)) continue;
    check_runtime(workflow, image, profile);
    pin(workflow, image, lock, hashes);
  }
}

void fetch_images(const Plan& plan) {
  const std::set<std::string> used = used_images(plan.workflow);
  for (const Image& image : plan.workflow.images) {
    if (!used.contains(image.name)) continue;
    const ImageSource source = source_of(plan.workflow, image);
    if (source.kind != ImageSource::Kind::Registry) continue;
    ImageStore(cache_directory(plan.profile), plan.profile.cache_budget_bytes, stderr)
        .provide(source, image.digest);
  }
}

}  // namespace dlflow
