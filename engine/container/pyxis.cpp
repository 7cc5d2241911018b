#include "base/text.h"
#include "engine/container/runtime.h"

namespace dlflow {

/// pyxis gives srun the flags that begin with --container; enroot unpacks the file on each node and
/// brings the GPUs' libraries itself. `command` is srun with the launcher's arguments.
Invocation invoke_pyxis(const Container& container) {
  std::vector<std::string> mounts;
  for (const Bind& bind : container.binds) mounts.push_back(bind_text(bind));
  Invocation call{container.command, {}};
  append(
      call.argv,
      {"--container-image=" + container.image.string(), "--container-mounts=" + join(mounts, ","),
       "--container-workdir=" + container.directory.string(), "--container-readonly",
       "--no-container-mount-home", "--no-container-remap-root", "--no-container-entrypoint"});
  append(call.argv, container.arguments);
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
