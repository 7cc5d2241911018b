#include "engine/cli/images.h"

#include <set>

#include "base/error.h"
#include "base/process.h"
#include "engine/container/image_source.h"
#include "engine/container/image_store.h"
#include "engine/container/registry.h"
#include "engine/container/runtime.h"
#include "engine/plan/layout.h"
#include "engine/run/batch_systems.h"
#include "engine/share/bundle_reader.h"

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

/// Throws `message` about `image` as Error{InvalidInput} "file:line:column: error: image 'x': …".
[[noreturn]] void throw_at_image(const Workflow& workflow, const Image& image,
                                 const std::string& message) {
  throw_at(workflow, image.location, "image '" + image.name + "': " + message);
}

/// Finds mistakes that would otherwise fail only in the job.
void check_runtime(const Workflow& workflow, const Image& image, const Profile& profile) {
  const ContainerSettings& container = profile.container;
  const std::string where = profile.file.empty() ? "the built-in profile 'local'" : profile.file;
  if (container.runtime == "none") {
    throw_at_image(workflow, image,
                   where + " runs no containers; set container.runtime to what this cluster has (" +
                       "docs/user/containers.md lists them), or remove the steps' `image:`");
  }
  const bool may_be_elsewhere = is_batch_system(profile.scheduler) || !profile.setup.empty();
  if (may_be_elsewhere) return;
  const std::string program = container.command.empty()
                                  ? std::string(find_runtime(container.runtime)->program)
                                  : container.command.front();
  if (program.find('/') != program.npos || find_program(program, environment_variable("PATH")))
    return;
  throw_at_image(workflow, image,
                 "there is no program '" + program + "' here, but container.runtime " +
                     container.runtime + " of " + where + " needs it; install it (" +
                     std::string(find_runtime(container.runtime)->package) +
                     ") or choose another runtime");
}

/// Gives images without a `digest:` the digest that their workflow's bundle recorded.
void use_recorded_digests(Workflow& workflow) {
  if (const auto folder = unpacked_bundle(workflow.file)) {
    const Manifest manifest = read_manifest(*folder);
    for (Image& image : workflow.images) {
      const auto recorded = manifest.images.find(image.name);
      if (recorded == manifest.images.end() || recorded->second.from != image.from) continue;
      if (image.digest.empty()) image.digest = recorded->second.digest;
    }
    return;
  }
  const fs::path lock = fs::path(workflow.file).replace_extension(".lock.json");
  if (!fs::exists(lock)) return;
  throw Error(Errc::InvalidInput,
              lock.string() +
                  " is no longer read: write the digest of each image as `digest:` in " +
                  workflow.file + ", and remove the file");
}

void pin(const Workflow& workflow, Image& image, FileHashes& hashes) {
  ImageSource source = source_of(workflow, image);
  const bool in_registry = source.kind == ImageSource::Kind::Registry;
  if (in_registry && source.digest.empty()) source.digest = image.digest;
  Digest now;
  try {
    if (in_registry && source.digest.empty()) {
      throw Error(Errc::InvalidInput,
                  image.from + " may point to another image tomorrow; add `digest: " +
                      registry_digest(source.name).text() + "`, its current digest");
    }
    now = image_digest(source, [&](const fs::path& file) { return hashes.sha256(file); });
  } catch (const Error& error) {
    throw_at_image(workflow, image, error.what());
  }
  if (!image.digest.empty() && image.digest != now) {
    throw_at_image(workflow, image,
                   image.from + " is " + now.text() + " now, but should be " + image.digest.text() +
                       "; restore it, or, if the change is intended, write `digest: " + now.text() +
                       "`");
  }
  image.digest = now;
}

}  // namespace

void pin_images(Workflow& workflow, const Profile& profile, FileHashes& hashes) {
  const std::set<std::string> used = used_images(workflow);
  if (used.empty()) return;
  use_recorded_digests(workflow);
  for (Image& image : workflow.images) {
    if (!used.contains(image.name)) continue;
    check_runtime(workflow, image, profile);
    pin(workflow, image, hashes);
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
