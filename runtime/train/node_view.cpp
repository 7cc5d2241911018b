#include "runtime/train/node_view.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>

#include "base/error.h"
#include "base/sha256.h"
#include "runtime/train/agreement.h"

namespace dlflow::runtime {

NodeView::NodeView(Communicator& comm, std::span<const std::filesystem::path> files) : comm_(comm) {
  const Hex mine = known_as(files);
  told_ = comm.allocate_shared(sizeof(Told));
  told(comm.node_rank()).files = mine;
  comm.barrier();
  believes_ = mine == told(0).files;
}

std::string NodeView::agree(const std::string& found) {
  if (looks() && !found.empty()) told(comm_.node_rank()).found = hex_of(found);
  comm_.barrier();
  const Hex& hex = told(believed()).found;
  return hex == Hex{} ? "" : std::string(hex.begin(), hex.end());
}

std::byte* NodeView::share(size_t bytes) {
  return comm_.allocate_shared(looks() ? bytes : 0)[size_t(believed())];
}

NodeView::Hex NodeView::hex_of(const std::string& text) {
  Hex hex{};
  DLFLOW_CHECK(text.size() == hex.size());
  text.copy(hex.data(), hex.size());
  return hex;
}

/// Equal for the same files on one node, and only for those.
NodeView::Hex NodeView::known_as(std::span<const std::filesystem::path> files) {
  std::string all;
  for (const std::filesystem::path& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) throw_errno("cannot read " + file.string(), errno);
    for (const auto number : {uint64_t(info.st_dev), uint64_t(info.st_ino), uint64_t(info.st_size),
                              uint64_t(info.st_mtim.tv_sec), uint64_t(info.st_mtim.tv_nsec)}) {
      all += std::to_string(number) + " ";
    }
  }
  return hex_of(sha256_hex(all));
}

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
