#include "engine/container/runtime.h"

namespace dlflow {

/// apptainer, and singularity before it had that name, on a root folder ("sandbox"): that needs
/// neither FUSE nor a set-user-id helper.
Invocation invoke_apptainer(const Container& container) {
  Invocation call{container.command, {}};
  append(call.argv, {"--silent", "exec", "--cleanenv", "--no-home"});
  for (const Bind& bind : container.binds) append(call.argv, {"--bind", bind_text(bind)});
  append(call.argv, {"--pwd", container.directory});
  if (container.building) append(call.argv, {"--writable", "--fakeroot"});
  if (container.gpus) append(call.argv, {"--nv"});
  append(call.argv, container.arguments);
  append(call.argv, {container.image});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
