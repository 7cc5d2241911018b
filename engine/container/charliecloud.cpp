#include "engine/container/runtime.h"

namespace dlflow {

/// ch-run mounts the image read-only, and the host's /dev, /proc, /sys, hosts and resolv.conf. Its
/// binds cannot be read-only. It refuses to start without $USER.
Invocation invoke_charliecloud(const Container& container) {
  Invocation call{container.command, {"USER=" + container.user}};
  append(call.argv, {"--unset-env=*"});
  if (container.building) append(call.argv, {"--write", "--uid=0", "--gid=0"});
  for (const Bind& bind : container.binds) {
    append(call.argv, {"--bind=" + bind.source.string() + ":" + bind.target.string()});
  }
  append(call.argv, {"--cd=" + container.directory.string()});
  append(call.argv, container.arguments);
  append(call.argv, {container.image, "--"});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
