#include "runtime/train/shared_split.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "runtime/data/chunked_dataset.h"
#include "runtime/data/proven_images.h"
#include "runtime/data/split_files.h"
#include "runtime/train/node_view.h"

namespace dlflow::runtime {

SharedSplit open_shared_split(Communicator& comm, const std::filesystem::path& folder,
                              Split split) {
  const Activity activity(comm, "reads the data");
  const std::vector<SplitFiles> splits = splits_to_read(folder, split);
  std::shared_ptr<const ChunkedDataset> chunks;
  if (std::ranges::all_of(splits, has_chunk_hashes)) {
    chunks = std::make_shared<const ChunkedDataset>(folder, split);
  }
  const std::vector<std::filesystem::path> files = files_of(splits);
  NodeView node(comm, files);
  std::byte* const record = node.share(chunks ? ProvenImages::record_bytes(*chunks) : 0);
  SharedSplit opened;
  std::string found;  // hash of all of the data, on ranks that examine it
  if (chunks) {
    opened.dataset = chunks->dataset();
    opened.identity = chunks->content_hash();
    opened.images = std::make_shared<ProvenImages>(std::move(chunks), record);
  } else {
    opened.dataset = open_dataset(folder, split, node.looks() ? Proof::Hash : Proof::Structure);
    if (node.looks()) found = content_hash(opened.dataset);
  }
  found = node.agree(found);  // collective: also called by ranks whose data has hashes
  if (opened.identity.empty()) opened.identity = found;
  return opened;
}

std::string content_hash(const Dataset& dataset) {
  const ImageShape& shape = dataset.shape;
  Sha256 hash;
  if (dataset.num_validation > 0) hash.update(std::to_string(dataset.num_validation) + ";");
  for (const uint32_t number : {dataset.num_classes, shape.channels, shape.height, shape.width}) {
    hash.update(std::to_string(number) + ",");
  }
  if (dataset.has_text_classes()) hash.update(std::to_string(dataset.vocabulary) + " tokens,");
  const auto update = [&](const auto& numbers) {
    const auto raw = std::as_bytes(std::span(numbers));
    hash.update({reinterpret_cast<const char*>(raw.data()), raw.size()});
  };
  std::visit(
      [&](const auto& images) {
        for (size_t i = 0; i < images.size(); ++i) {
          if (dataset.is_encoded()) hash.update(std::to_string(images[i].size()) + ";");
          update(images[i]);
        }
      },
      dataset.pixels);
  for (size_t i = 0; i < dataset.targets.size(); ++i) update(dataset.targets[i]);
  for (size_t i = 0; i < dataset.labels.size(); ++i) {
    const uint32_t label = dataset.labels[i];
    update(std::span(&label, 1));
  }
  return hash.hex();
}

std::unique_ptr<EpochOrder> shared_order(Communicator& comm, size_t num_samples, uint64_t seed,
                                         bool reads) {
  const bool first = comm.node_rank() == 0;
  std::byte* const memory =
      comm.allocate_shared(first ? EpochOrder::bytes_for(num_samples, comm.node_size()) : 0)[0];
  return std::make_unique<EpochOrder>(num_samples, seed, memory, comm.node_size(), comm.node_rank(),
                                      reads);
}

Normalization shared_normalization(Communicator& comm, const Dataset& dataset, StepImages* images) {
  const Activity activity(comm, "measures the training data");
  const size_t blocks = num_normalization_blocks(dataset), channels = dataset.shape.channels;
  const auto first_of = [&](int rank) { return blocks * size_t(rank) / size_t(comm.size()); };
  std::vector<PixelSums> sums(blocks * channels);
  for (size_t block = first_of(comm.rank()); block < first_of(comm.rank() + 1); ++block) {
    std::ranges::copy(sums_of_block(dataset, block, images), &sums[block * channels]);
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    const size_t first = first_of(rank) * channels, end = first_of(rank + 1) * channels;
    comm.broadcast(std::as_writable_bytes(std::span(sums).subspan(first, end - first)), rank);
  }
  return normalization_of(dataset, sums);
}

}  // namespace dlflow::runtime
