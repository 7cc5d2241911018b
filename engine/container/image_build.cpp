#include "engine/container/image_build.h"

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/sha256.h"
#include "engine/container/tool.h"
#include "engine/container/tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The image's bash, or else its sh, runs a script up to the first failing command.
std::vector<std::vector<std::string>> commands_of(const Json& build) {
  const Json& run = build.at("run");
  if (run.is_array()) return {run.get<std::vector<std::string>>()};
  const auto script = run.get<std::string>();
  return {{"bash", "-ec", script}, {"sh", "-ec", script}};
}

std::map<std::string, std::string> variables_of(const Json& build) {
  std::map<std::string, std::string> environment;
  const Json given = build.value("env", Json::object());
  for (const auto& [name, value] : given.items()) environment[name] = text_or_dump(value);
  return environment;
}

/// The image must not depend on the job that happens to build it.
ContainerJob job_of_build(const ContainerJob& job, const fs::path& directory) {
  ContainerJob build;
  build.image = job.image;
  build.from = job.from;
  build.cache = job.cache;
  build.runtime = job.runtime;
  build.command = job.command;
  build.mode = job.mode;
  build.arguments = job.arguments;
  build.directory = directory;
  build.commands = commands_of(job.build);
  build.environment = variables_of(job.build);
  return build;
}

/// A `dir:` image may change in place, so its present content counts.
Digest digest_of(const ContainerJob& job, const StoredImage& base) {
  if (!base.folder.empty()) return job.digest;
  return folder_digest(base.rootfs, [](const fs::path& file) { return sha256_file(file); });
}

}  // namespace

Digest built_digest(const Digest& base, const Json& build) {
  return Digest::of_hex(sha256_hex(Json{{"base", base}, {"build", build}}.dump()));
}

StoredImage built_image(
    const ContainerJob& job, ImageStore& store, const StoredImage& base, const fs::path& directory,
    const std::function<int(const ContainerJob& build, const StoredImage& image)>& run) {
  const auto change = [&](const fs::path& rootfs) {
    run_tool({"cp", "-a", base.rootfs.string() + "/.", rootfs});
    run_tool({"chmod", "-R", "u+w", rootfs});
    StoredImage copy = base;
    copy.folder.clear();  // not in the store, so no locks are needed
    copy.rootfs = rootfs;
    make_directories(directory);
    const int status = run(job_of_build(job, directory), copy);
    if (status != 0) {
      throw Error(Errc::InvalidInput,
                  "the `build:` of image '" + job.image + "' ended with exit status " +
                      std::to_string(status) +
                      "; the job's output shows why; correct it and start a new run");
    }
    // Removes the mount point of dlflow itself, and folders that are then empty.
    std::error_code rest;
    fs::path place = rootfs / this_program().relative_path();
    while (place != rootfs && fs::remove(place, rest)) place = place.parent_path();
    run_tool({"chmod", "-R", "u+rX,a-w,ug-s", rootfs});
  };
  return store.derive(base, built_digest(digest_of(job, base), job.build), job.image, change);
}

}  // namespace dlflow
