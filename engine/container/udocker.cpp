#include "engine/container/runtime.h"

namespace dlflow {
namespace {

/// The name of the one container in the repository that convert_image.h makes.
constexpr const char* kContainer = "image";

}  // namespace

/// P modes run on the root folder as it is. R modes want a container, and so does --nvidia.
ImageForm udocker_form(const std::string& mode, bool gpus) {
  const bool as_it_is = mode.starts_with('P') && !gpus;
  return as_it_is ? ImageForm::RootFolder : ImageForm::UdockerContainer;
}

bool udocker_runs_alone(const std::string& mode) { return mode.starts_with('R'); }

/// udocker never creates a container here: parallel creations leave copies behind. As root it must
/// be told that this is meant. An empty UDOCKER_TARBALL keeps it from downloading its engine on a
/// compute node.
Invocation invoke_udocker(const Container& container) {
  Invocation call{container.command, {"UDOCKER_LOGLEVEL=2", "UDOCKER_TARBALL="}};
  if (container.uid == 0) append(call.argv, {"--allow-root"});
  append(call.argv, {"run"});
  if (container.building) {
    append(call.argv, {"--user=0:0"});
  } else if (!udocker_runs_alone(container.mode)) {
    append(call.argv, {"--user=" + container.user, "--hostauth"});
  }
  append(call.argv, {"--volume=/etc/hosts:/etc/hosts"});  // names of nodes, as others show them
  for (const Bind& bind : container.binds) {
    append(call.argv, {"--volume=" + bind.source.string() + ":" + bind.target.string()});
  }
  append(call.argv, {"--workdir=" + container.directory.string()});
  append(call.argv, container.arguments);
  if (udocker_form(container.mode, container.gpus) == ImageForm::RootFolder) {
    call.environment.push_back("UDOCKER_DEFAULT_EXECUTION_MODE=" + container.mode);
    append(call.argv, {"--location=" + container.image.string()});  // instead of the named one
  } else {
    call.environment.push_back("UDOCKER_DIR=" + container.image.string());
  }
  append(call.argv, {kContainer});
  append(call.argv, container.program);
  return call;
}

}  // namespace dlflow
