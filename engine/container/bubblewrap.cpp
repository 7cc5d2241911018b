#include "engine/container/runtime.h"

namespace dlflow {

/// bwrap has no notion of an image: a root file system, and what is mounted over it. The host's
/// /dev brings shared memory and the devices of GPUs and interconnects, not the drivers' libraries.
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
  for (const char* file : {"/etc/passwd", "/etc/group"}) {  // packages add to them
    if (!building) append(call.argv, {"--ro-bind-try", file, file});
  }
  for (const Bind& bind : container.binds) {
    append(call.argv, {bind.read_only ? "--ro-bind" : "--bind", bind.source, bind.target});
  }
  append(call.argv, {"--chdir", container.directory, "--die-with-parent"});
  append(call.argv, container.arguments);
  append(call.argv, {"--"});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
