#include "engine/container/runtime.h"

#include <array>

#include "base/text.h"

namespace dlflow {
namespace {

/// The name of the only container in the repository that convert_image.h makes.
constexpr const char* kContainer = "image";

ImageForm root_folder(const std::string&, bool) { return ImageForm::RootFolder; }
ImageForm squashfs(const std::string&, bool) { return ImageForm::Squashfs; }
ImageForm daemon_image(const std::string&, bool) { return ImageForm::DaemonImage; }

/// P modes run on the root folder itself. R modes need a container, and so does --nvidia.
ImageForm udocker_form(const std::string& mode, bool gpus) {
  const bool as_it_is = mode.starts_with('P') && !gpus;
  return as_it_is ? ImageForm::RootFolder : ImageForm::UdockerContainer;
}

/// Completes `call` with the site's arguments, the image, and the program that runs inside.
Invocation complete(Invocation call, const Container& container,
                    const std::vector<std::string>& image) {
  for (const auto* words : {&container.arguments, &image, &container.program}) {
    append(call.argv, *words);
  }
  return call;
}

constexpr const char* kApptainerDriver = "/.singularity.d/libs";
constexpr auto kRuntimes = std::to_array<ContainerRuntime>({
    {"apptainer", "apptainer", "https://apptainer.org", root_folder, invoke_apptainer, false,
     kApptainerDriver},
    {"singularity", "singularity", "https://apptainer.org", root_folder, invoke_apptainer, false,
     kApptainerDriver},
    {"podman", "podman", "Debian's podman", root_folder, invoke_podman},
    {"charliecloud", "ch-run", "Debian's charliecloud", root_folder, invoke_charliecloud},
    {"udocker", "udocker", "`pip install udocker`, and Debian's proot or `udocker install`",
     udocker_form, invoke_udocker},
    {"bubblewrap", "bwrap", "Debian's bubblewrap", root_folder, invoke_bubblewrap},
    {.name = "pyxis",
     .program = "srun",
     .package = "https://github.com/NVIDIA/pyxis, which administrators add to SLURM",
     .form = squashfs,
     .invoke = invoke_pyxis,
     .starts_ranks = true,
     .shown_by = "enroot"},
    {"docker", "docker", "https://docs.docker.com/engine/install", daemon_image, invoke_docker},
});

}  // namespace

std::span<const ContainerRuntime> runtimes() { return kRuntimes; }

const ContainerRuntime* find_runtime(std::string_view name) {
  for (const ContainerRuntime& runtime : kRuntimes) {
    if (runtime.name == name) return &runtime;
  }
  return nullptr;
}

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

bool udocker_runs_alone(const std::string& mode) { return mode.starts_with('R'); }

/// apptainer, formerly singularity, on a root folder ("sandbox"), which needs neither FUSE nor a
/// set-user-id helper.
Invocation invoke_apptainer(const Container& container) {
  Invocation call{container.command, {}};
  append(call.argv, {"--silent", "exec", "--cleanenv", "--no-home"});
  for (const Bind& bind : container.binds) append(call.argv, {"--bind", bind_text(bind)});
  append(call.argv, {"--pwd", container.directory});
  if (container.building) append(call.argv, {"--writable", "--fakeroot"});
  if (container.gpus) append(call.argv, {"--nv"});
  return complete(call, container, {container.image});
}

/// Rootless podman directly on the root file system: its own image store would copy it, and is not
/// suited to network file systems. Each container has its own podman state, so that a killed one
/// leaves nothing behind: otherwise podman 5 would start no further container once the process that
/// it keeps for all of them is gone. The caller's user id needs entries in /etc/subuid.
Invocation invoke_podman(const Container& container) {
  Invocation call{container.command, {"XDG_RUNTIME_DIR=" + container.scratch.string()}};
  append(call.argv, {"--root=" + (container.scratch / "root").string(),
                     "--runroot=" + (container.scratch / "run").string(),
                     "--tmpdir=" + (container.scratch / "tmp").string(), "--storage-driver=vfs"});
  append(call.argv, {"run", "--rm"});
  if (!container.building) append(call.argv, {"--read-only"});
  const bool rootless = container.uid != 0;  // root does not need it, and podman refuses it
  if (rootless && !container.building) append(call.argv, {"--userns=keep-id"});
  append(call.argv,
         {"--network=host", "--pid=host", "--security-opt=label=disable", "--log-driver=none"});
  for (const Bind& bind : container.binds) append(call.argv, {"--volume=" + bind_text(bind)});
  append(call.argv, {"--workdir=" + container.directory.string()});
  if (container.gpus) append(call.argv, {"--device=nvidia.com/gpu=all"});
  return complete(call, container, {"--rootfs", container.image});
}

/// ch-run mounts the image read-only, with the host's /dev, /proc, /sys, hosts and resolv.conf. Its
/// binds cannot be read-only. It does not start without $USER.
Invocation invoke_charliecloud(const Container& container) {
  Invocation call{container.command, {"USER=" + container.user}};
  append(call.argv, {"--unset-env=*"});
  if (container.building) append(call.argv, {"--write", "--uid=0", "--gid=0"});
  for (const Bind& bind : container.binds) {
    append(call.argv, {"--bind=" + bind.source.string() + ":" + bind.target.string()});
  }
  append(call.argv, {"--cd=" + container.directory.string()});
  return complete(call, container, {container.image, "--"});
}

/// udocker never creates a container here: parallel creations leave copies behind. As root it needs
/// an explicit option. An empty UDOCKER_TARBALL keeps it from downloading its engine on a compute
/// node.
Invocation invoke_udocker(const Container& container) {
  Invocation call{container.command, {"UDOCKER_LOGLEVEL=2", "UDOCKER_TARBALL="}};
  if (container.uid == 0) append(call.argv, {"--allow-root"});
  append(call.argv, {"run"});
  if (container.building) {
    append(call.argv, {"--user=0:0"});
  } else if (!udocker_runs_alone(container.mode)) {
    append(call.argv, {"--user=" + container.user, "--hostauth"});
  }
  append(call.argv, {"--volume=/etc/hosts:/etc/hosts"});  // so that names of nodes resolve
  for (const Bind& bind : container.binds) {
    append(call.argv, {"--volume=" + bind.source.string() + ":" + bind.target.string()});
  }
  append(call.argv, {"--workdir=" + container.directory.string()});
  append(call.argv, container.arguments);
  if (udocker_form(container.mode, container.gpus) == ImageForm::RootFolder) {
    call.environment.push_back("UDOCKER_DEFAULT_EXECUTION_MODE=" + container.mode);
    append(call.argv, {"--location=" + container.image.string()});  // replaces the named container
  } else {
    call.environment.push_back("UDOCKER_DIR=" + container.image.string());
  }
  append(call.argv, {kContainer});
  append(call.argv, container.program);
  return call;
}

/// bwrap has no images: it uses a root file system with further mounts over it. The host's /dev
/// provides shared memory and the devices of GPUs and interconnects, not the drivers' libraries.
Invocation invoke_bubblewrap(const Container& container) {
  Invocation call{container.command, {}};
  const bool building = container.building;
  if (building && container.uid != 0) {
    append(call.argv, {"--unshare-user", "--uid", "0", "--gid", "0"});
  }
  append(call.argv, {building ? "--bind" : "--ro-bind", container.image, "/"});
  append(call.argv, {"--dev-bind", "/dev", "/dev"});
  append(call.argv, {"--bind", "/proc", "/proc", "--ro-bind", "/sys", "/sys"});
  for (const char* file : {"/etc/hosts", "/etc/resolv.conf"}) {
    append(call.argv, {"--ro-bind-try", file, file});
  }
  for (const char* file : {"/etc/passwd", "/etc/group"}) {  // in a build, packages add entries
    if (!building) append(call.argv, {"--ro-bind-try", file, file});
  }
  for (const Bind& bind : container.binds) {
    append(call.argv, {bind.read_only ? "--ro-bind" : "--bind", bind.source, bind.target});
  }
  append(call.argv, {"--chdir", container.directory, "--die-with-parent"});
  return complete(call, container, {"--"});
}

/// pyxis adds flags that begin with --container to srun; enroot unpacks the file on each node and
/// provides the GPUs' libraries itself. `command` is srun with the launcher's arguments.
Invocation invoke_pyxis(const Container& container) {
  std::vector<std::string> mounts;
  for (const Bind& bind : container.binds) mounts.push_back(bind_text(bind));
  Invocation call{container.command, {}};
  append(
      call.argv,
      {"--container-image=" + container.image.string(), "--container-mounts=" + join(mounts, ","),
       "--container-workdir=" + container.directory.string(), "--container-readonly",
       "--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint"});
  return complete(call, container, {});
}

/// The docker daemon runs as root, but the container as the caller.
Invocation invoke_docker(const Container& container) {
  Invocation call{container.command, {}};
  append(call.argv, {"run", "--rm", "--read-only", "--pull=never", "--network=host", "--pid=host",
                     "--ipc=host", "--log-driver=none"});
  append(call.argv,
         {"--user=" + std::to_string(container.uid) + ":" + std::to_string(container.gid)});
  for (const Bind& bind : container.binds) append(call.argv, {"--volume=" + bind_text(bind)});
  append(call.argv, {"--workdir=" + container.directory.string()});
  if (container.gpus) append(call.argv, {"--gpus=all"});
  return complete(call, container, {container.image});
}

}  // namespace dlflow
