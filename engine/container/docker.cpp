#include "engine/container/runtime.h"

namespace dlflow {

/// The docker daemon runs as root, the container as the caller.
Invocation invoke_docker(const Container& container) {
  Invocation call{container.command, {}};
  append(call.argv, {"run", "--rm", "--read-only", "--pull=never", "--network=host", "--pid=host",
                     "--ipc=host", "--log-driver=none"});
  append(call.argv,
         {"--user=" + std::to_string(container.uid) + ":" + std::to_string(container.gid)});
  for (const Bind& bind : container.binds) append(call.argv, {"--volume=" + bind_text(bind)});
  append(call.argv, {"--workdir=" + container.directory.string()});
  if (container.gpus) append(call.argv, {"--gpus=all"});
  append(call.argv, container.arguments);
  append(call.argv, {container.image});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
