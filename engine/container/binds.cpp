#include "engine/container/binds.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/local_files.h"
#include "base/process.h"
#include "engine/container/tree.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Folders that ranks of a node use to communicate with each other and with their launcher, and the
/// node's own disk. Skips folders that the node lacks.
std::vector<Bind> node_folders(const ContainerJob& job) {
  std::vector<Bind> binds;
  std::vector<fs::path> folders = {"/tmp", "/dev/shm", environment_variable("TMPDIR")};
  const auto scratch = job.environment.find("DLFLOW_SCRATCH");
  if (scratch != job.environment.end()) folders.emplace_back(scratch->second);
  // Binds their parents: their names differ between jobs, but an image has one mount point.
  for (const char* name : {"PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR"}) {
    const fs::path folder = environment_variable(name);
    folders.push_back(folder.parent_path() == "/" ? folder : folder.parent_path());
  }
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (fs::is_directory(folder, ignored)) binds.push_back({folder, folder});
  }
  return binds;
}

bool is_covered(const Bind& bind, const std::vector<Bind>& by) {
  return std::any_of(by.begin(), by.end(), [&](const Bind& other) {
    return other.read_only == bind.read_only && other.source == other.target &&
           bind.source == bind.target && is_below(bind.source, other.source);
  });
}

void check(const Bind& bind) {
  std::error_code ignored;
  if (!fs::exists(bind.source, ignored)) {
    throw Error(Errc::NotFound,
                bind.source.string() + ", which the container needs, does not exist on " +
                    host_name() + "; correct container.binds of the profile, or create it");
  }
  for (const fs::path& path : {bind.source, bind.target}) {
    if (path.string().find_first_of(":,") == std::string::npos) continue;
    throw Error(Errc::InvalidInput,
                path.string() +
                    " cannot be bound into a container: runtimes use ':' and ',' as separators");
  }
}

}  // namespace

std::vector<Bind> container_binds(const ContainerJob& job) {
  std::vector<Bind> wanted = node_folders(job);
  const fs::path self = this_program();
  wanted.push_back({self, self});
  wanted.insert(wanted.end(), job.binds.begin(), job.binds.end());
  std::stable_sort(wanted.begin(), wanted.end(), [](const Bind& a, const Bind& b) {
    return a.target.string().size() < b.target.string().size();
  });
  std::vector<Bind> binds;
  for (const Bind& bind : wanted) {
    check(bind);
    if (!is_covered(bind, binds)) binds.push_back(bind);
  }
  return binds;
}

void make_mount_points(const StoredImage& image, const std::vector<Bind>& binds,
                       ImageStore& store) {
  std::optional<FileLock> lock;  // taken only if a mount point is missing
  for (const Bind& bind : binds) {
    std::error_code ignored;
    if (fs::exists(resolve_in(image.rootfs, bind.target / "."), ignored)) continue;
    if (bind.target.native().starts_with("/dev/")) continue;  // from the host
    if (!lock && !image.folder.empty()) lock = store.lock(image.digest, "makes mount points");
    make_mount_point(image.rootfs, bind.target,
                     fs::is_directory(bind.source) ? MountPoint::Folder : MountPoint::File);
  }
}

}  // namespace dlflow
