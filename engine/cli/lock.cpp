#include <cstdio>

#include "base/error.h"
#include "engine/cli/commands.h"
#include "engine/cli/images.h"
#include "engine/cli/workflow_argument.h"
#include "engine/container/image_lock.h"
#include "engine/container/image_source.h"
#include "engine/container/registry.h"

namespace dlflow {
namespace {

std::string digest_now(const Workflow& workflow, const Image& image, FileHashes& hashes) {
  using Kind = ImageSource::Kind;
  const auto folder = std::filesystem::absolute(workflow.file).parent_path();
  const ImageSource source = image_source(image.from, folder);
  try {
    if (source.kind == Kind::Registry && source.digest.empty()) return registry_digest(source.name);
    return image_digest(source,
                        [&](const std::filesystem::path& file) { return hashes.sha256(file); });
  } catch (const Error& error) {
    if (error.retryable()) throw;
    throw_at_image(workflow, image, error.what());
  }
}

void lock_images(Session& session, const Workflow& workflow) {
  const std::filesystem::path file = image_lock_file(workflow.file);
  const ImageLock before = read_image_lock(file);
  ImageLock lock;
  for (const Image& image : workflow.images) {
    lock[image.name] = {image.from, digest_now(workflow, image, session.store())};
    const auto old = before.find(image.name);
    const bool same = old != before.end() && old->second == lock[image.name];
    if (session.quiet || session.json) continue;
    std::printf("%s  %s%s\n", image.name.c_str(), lock[image.name].digest.c_str(),
                same                  ? "  as before"
                : old != before.end() ? "  changed"
                                      : "");
  }
  if (lock.empty()) {
    throw Error(Errc::InvalidInput, workflow.file + " has no images; there is nothing to lock");
  }
  write_image_lock(file, lock);
  if (session.json) {
    Json images = Json::object();
    for (const auto& [name, pinned] : lock) images[name] = pinned.digest;
    return print_json({{"file", file.string()}, {"images", std::move(images)}});
  }
  if (!session.quiet) {
    std::printf("%s: keep it with the workflow; runs refuse images that are not these.\n",
                file.c_str());
  }
}

}  // namespace

void add_lock(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "lock", "Pin the images of a workflow to their current digests, in a file beside it.",
      "  dlflow lock workflows/finetune.yaml\n"
      "  git add workflows/finetune.lock.json");
  const auto workflow = add_workflow_argument(*command);
  add_json_option(*command, session);
  command->callback([&session, workflow] { lock_images(session, workflow->read()); });
}

}  // namespace dlflow
