#include "engine/container/runtime.h"

namespace dlflow {

/// Rootless podman straight on the root file system: its own store of images would copy it, and is
/// not made for network file systems. What it keeps about containers is for this one alone, so that
/// nothing is left of one that was killed. The caller's user id needs entries in /etc/subuid.
Invocation invoke_podman(const Container& container) {
  Invocation call{container.command, {}};
  append(call.argv, {"--root=" + (container.scratch / "root").string(),
                     "--runroot=" + (container.scratch / "run").string(),
                     "--tmpdir=" + (container.scratch / "tmp").string(), "--storage-driver=vfs"});
  append(call.argv, {"run", "--rm"});
  if (!container.building) append(call.argv, {"--read-only"});
  const bool rootless = container.uid != 0;  // podman refuses the option to root, who needs none
  if (rootless && !container.building) append(call.argv, {"--userns=keep-id"});
  append(call.argv,
         {"--network=host", "--pid=host", "--security-opt=label=disable", "--log-driver=none"});
  for (const Bind& bind : container.binds) append(call.argv, {"--volume=" + bind_text(bind)});
  append(call.argv, {"--workdir=" + container.directory.string()});
  if (container.gpus) append(call.argv, {"--device=nvidia.com/gpu=all"});
  append(call.argv, container.arguments);
  append(call.argv, {"--rootfs", container.image});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
