#include "engine/container/runtime.h"

#include <array>

#include "base/text.h"

namespace dlflow {
namespace {

ImageForm squashfs(const std::string&, bool) { return ImageForm::Squashfs; }
ImageForm daemon_image(const std::string&, bool) { return ImageForm::DaemonImage; }

constexpr std::array kRuntimes = {
    ContainerRuntime{.name = "apptainer",
                     .program = "apptainer",
                     .package = "https://apptainer.org",
                     .form = root_folder,
                     .invoke = invoke_apptainer,
                     .gpu_libraries = "/.singularity.d/libs"},
    ContainerRuntime{.name = "singularity",
                     .program = "singularity",
                     .package = "https://apptainer.org",
                     .form = root_folder,
                     .invoke = invoke_apptainer,
                     .gpu_libraries = "/.singularity.d/libs"},
    ContainerRuntime{.name = "podman",
                     .program = "podman",
                     .package = "Debian's podman",
                     .form = root_folder,
                     .invoke = invoke_podman},
    ContainerRuntime{.name = "charliecloud",
                     .program = "ch-run",
                     .package = "Debian's charliecloud",
                     .form = root_folder,
                     .invoke = invoke_charliecloud},
    ContainerRuntime{.name = "udocker",
                     .program = "udocker",
                     .package = "`pip install udocker`, and Debian's proot or `udocker install`",
                     .form = udocker_form,
                     .invoke = invoke_udocker},
    ContainerRuntime{.name = "bubblewrap",
                     .program = "bwrap",
                     .package = "Debian's bubblewrap",
                     .form = root_folder,
                     .invoke = invoke_bubblewrap},
    ContainerRuntime{
        .name = "pyxis",
        .program = "srun",
        .package = "https://github.com/NVIDIA/pyxis, which administrators add to SLURM",
        .form = squashfs,
        .invoke = invoke_pyxis,
        .starts_ranks = true,
        .shown_by = "enroot"},
    ContainerRuntime{.name = "docker",
                     .program = "docker",
                     .package = "https://docs.docker.com/engine/install",
                     .form = daemon_image,
                     .invoke = invoke_docker},
};

}  // namespace

std::span<const ContainerRuntime> runtimes() { return kRuntimes; }

const ContainerRuntime* find_runtime(std::string_view name) {
  for (const ContainerRuntime& runtime : kRuntimes) {
    if (runtime.name == name) return &runtime;
  }
  return nullptr;
}

ImageForm root_folder(const std::string&, bool) { return ImageForm::RootFolder; }

Bind parse_bind(const std::string& text) {
  std::vector<std::string> parts = split(text, ':');
  const bool read_only = parts.size() > 1 && parts.back() == "ro";
  if (read_only) parts.pop_back();
  return {parts.front(), parts.back(), read_only};
}

std::string bind_text(const Bind& bind) {
  return bind.source.string() + ":" + bind.target.string() + (bind.read_only ? ":ro" : "");
}

void append(std::vector<std::string>& argv, const std::vector<std::string>& words) {
  argv.insert(argv.end(), words.begin(), words.end());
}

}  // namespace dlflow
