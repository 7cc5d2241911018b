#include "engine/container/convert_image.h"

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "engine/container/runtime.h"
#include "engine/container/tool.h"
#include "engine/container/tree.h"
#include "engine/container/udocker_engine.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

void make_squashfs(const fs::path& rootfs, const fs::path& target) {
  run_tool({"mksquashfs", rootfs, target, "-no-progress", "-quiet"});
}

std::vector<fs::path> roots_of_containers(const fs::path& repository) {
  std::vector<fs::path> roots;
  for (const auto& entry : fs::directory_iterator(repository / "containers")) {
    if (fs::is_directory(entry.path() / "ROOT")) roots.push_back(entry.path() / "ROOT");
  }
  return roots;
}

/// The driver's libraries are copied into the image; they do not work with another driver.
std::string driver_part(const ContainerJob& job) {
  if (!job.gpus) return "";
  const std::string driver = nvidia_driver();
  if (!driver.empty()) return "-nvidia-" + driver;
  throw Error(Errc::Unavailable, host_name() +
                                     " has no NVIDIA driver loaded, but the step asks for GPUs; "
                                     "choose nodes that have GPUs (`on:`, slurm.partition)");
}

/// Makes a repository with one container, set up for its mode.
void make_udocker_container(const ContainerJob& job, const std::vector<std::string>& command,
                            const fs::path& rootfs, const fs::path& target) {
  if (job.gpus && !has_folder_for_driver(rootfs)) {
    throw Error(
        Errc::InvalidInput,
        "image '" + job.image +
            "' has neither /usr/lib/x86_64-linux-gnu nor /usr/lib64, the only folders into "
            "which udocker copies the libraries of the NVIDIA driver; add one to the image");
  }
  const std::vector<std::string> variables = {"UDOCKER_DIR=" + target.string(),
                                              "UDOCKER_TARBALL=", "UDOCKER_LOGLEVEL=2"};
  const auto udocker = [&](const std::vector<std::string>& words) {
    std::vector<std::string> argv = command;
    if (::geteuid() == 0) argv.emplace_back("--allow-root");
    append(argv, words);
    run_tool(argv, variables);
  };
  const fs::path archive = target.string() + ".tar";
  run_tool({"tar", "--create", "--mode=u+w", "--file", archive, "--directory", rootfs, "."});
  udocker({"import", "--tocontainer", "--name=image", archive});
  fs::remove(archive);
  udocker({"setup", "--execmode=" + job.mode, "image"});
  if (!job.gpus) return;
  udocker({"setup", "--nvidia", "image"});  // exits with 0 even if it finds no driver
  for (const fs::path& root : roots_of_containers(target)) {
    if (has_cuda_library(root)) return;
  }
  throw Error(Errc::Unavailable,
              "udocker found no libraries of the NVIDIA driver on " + host_name() +
                  " (libcuda.so); ask the site where they are, or set container.runtime of the "
                  "profile to another runtime");
}

/// The file that records the container's initial state, as made by make_udocker_container().
fs::path state_file(const fs::path& target) { return target / "as-it-was-made"; }

/// The state of the one container in the repository.
std::string state_of_container(const fs::path& target) {
  const std::vector<fs::path> roots = roots_of_containers(target);
  return roots.empty() ? "" : tree_state(roots.front());
}

/// In R modes, programs can write to the container, one after the other; each must find its
/// original state.
fs::path udocker_container(const ContainerJob& job, ImageStore& store, const StoredImage& image,
                           const std::vector<std::string>& command) {
  const std::string name = "udocker-" + job.mode + driver_part(job);
  const auto make = [&](const fs::path& folder) {
    make_udocker_container(job, command, image.rootfs, folder);
    write_file_atomic(state_file(folder), state_of_container(folder));
  };
  fs::path folder = store.converted(image, name, make);
  if (!udocker_runs_alone(job.mode)) return folder;
  if (read_file_if_exists(state_file(folder)) == state_of_container(folder)) return folder;
  store.drop_converted(image, name);
  return store.converted(image, name, make);
}

fs::path docker_image(const std::vector<std::string>& command, ImageStore& store,
                      const StoredImage& image) {
  const std::string name = "dlflow:" + image.folder.filename().string();
  const auto docker = [&](const std::vector<std::string>& words) {
    std::vector<std::string> argv = command;
    append(argv, words);
    return argv;
  };
  if (try_tool(docker({"image", "inspect", name}))) return name;
  const FileLock loading = store.lock(image.digest, "gives the image to docker");
  if (try_tool(docker({"image", "inspect", name}))) return name;
  const fs::path archive = image.folder / "docker.tar";
  run_tool({"tar", "--create", "--file", archive, "--directory", image.rootfs, "."});
  run_tool(docker({"import", archive, name}));
  fs::remove(archive);
  return name;
}

}  // namespace

fs::path image_for(const ContainerRuntime& runtime, const ContainerJob& job,
                   const std::vector<std::string>& command, ImageStore& store,
                   const StoredImage& image) {
  const ImageForm form = runtime.form(job.mode, job.gpus);
  if (image.folder.empty() && form != ImageForm::RootFolder) {
    throw Error(Errc::InvalidInput, job.from + " is used in place, but " + job.runtime +
                                        " cannot do that here; give image '" + job.image +
                                        "' as docker-archive: or oci:");
  }
  switch (form) {
    case ImageForm::Squashfs:
      return store.converted(image, "image.sqsh",
                             [&](const fs::path& file) { make_squashfs(image.rootfs, file); });
    case ImageForm::UdockerContainer:
      return udocker_container(job, store, image, command);
    case ImageForm::DaemonImage:
      return docker_image(command, store, image);
    case ImageForm::RootFolder:
      break;
  }
  return image.rootfs;
}

}  // namespace dlflow
