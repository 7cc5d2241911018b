#include "runtime/train/shared_checkpoint.h"

#include "runtime/train/agreement.h"
#include "runtime/train/node_view.h"

namespace dlflow::runtime {

Checkpoint load_shared_checkpoint(Communicator& comm, const std::filesystem::path& step_folder,
                                  bool is_proven) {
  const Activity activity(comm, "reads a checkpoint");
  const CheckpointFiles files = checkpoint_files(step_folder);
  require_agreement(comm, {{"the checkpoint", files.sha256}});
  NodeView node(comm, files.paths);
  if (node.looks() && !is_proven) verify_checkpoint(step_folder);
  comm.barrier();  // until the files are verified for every rank
  return map_checkpoint(step_folder);
}

}  // namespace dlflow::runtime
