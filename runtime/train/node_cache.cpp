#include "runtime/train/node_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/process.h"
#include "runtime/comm/broadcast_text.h"
#include "runtime/train/evaluation.h"

namespace dlflow::runtime {
namespace {

void warn(const std::string& text) {
  std::fprintf(stderr, "warning: %s: %s\n", host_name().c_str(), text.c_str());
}

/// What each rank of the node looks at. Collective.
void add_ranks(VisitOrder& order, Communicator& comm, const Run& own_leaves) {
  const auto told = comm.allocate_shared(sizeof(Run));
  std::memcpy(told[size_t(comm.node_rank())], &own_leaves, sizeof(Run));
  comm.barrier();
  for (const std::byte* theirs : told) {
    std::memcpy(&order.leaves.emplace_back(), theirs, sizeof(Run));
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (comm.nodes()[size_t(rank)] != comm.nodes()[size_t(comm.rank())]) continue;
    order.batches.push_back(
        batches_of(order.validation_chunks.size(), order.validation_batch, rank, comm.size()));
  }
}

/// Null, and a warning, if there can be none.
std::unique_ptr<ScratchRoom> make_room(const CachedData& cached, size_t num_slots) {
  if (num_slots == 0) return nullptr;
  try {
    return std::make_unique<ScratchRoom>(cached.disk, num_slots, cached.data->chunk_bytes());
  } catch (const std::exception& error) {
    warn(std::string("the cache goes on without the node's disk: ") + error.what());
    return nullptr;
  }
}

/// Tells every rank what the first of its node has. Collective.
void share_room(Communicator& comm, const ScratchRoom* room, CacheOptions& options) {
  const Json mine = room == nullptr
                        ? Json{{"file", ""}, {"slots", 0}}
                        : Json{{"file", room->file().string()}, {"slots", room->num_slots()}};
  const std::span<const int> nodes = comm.nodes();
  int node = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (nodes[size_t(rank)] != node) continue;  // not the first of its node
    const Json theirs = Json::parse(broadcast_text(comm, mine.dump(), rank));
    if (nodes[size_t(comm.rank())] == node) {
      options.scratch_file = theirs.at("file").get<std::string>();
      options.scratch_slots = theirs.at("slots").get<size_t>();
    }
    ++node;
  }
}

}  // namespace

NodeCache::NodeCache(Communicator& comm, const CachedData& cached, VisitOrder order,
                     const std::optional<Run>& own_leaves)
    : cached_(cached) {
  const ChunkedDataset& data = *cached_.data;
  const bool first = comm.node_rank() == 0;
  add_ranks(order, comm, own_leaves.value_or(Run{}));
  CacheOptions options;
  options.rank = comm.node_rank();
  options.trains = own_leaves.has_value();
  options.shape = {memory_slots_within(cached_.budget, data, order), data.chunk_bytes(),
                   comm.node_size()};
  // What fits into memory needs no disk.
  const size_t scratch_slots =
      options.shape.num_slots == data.chunks().size()
          ? 0
          : std::min<size_t>(data.chunks().size(),
                             cached_.budget.scratch_bytes / data.chunk_bytes());
  if (first) room_ = make_room(cached_, scratch_slots);
  share_room(comm, room_.get(), options);
  const size_t bytes = first ? ChunkMemory::bytes_for(options.shape) : 0;
  options.memory = comm.allocate_shared(bytes)[0];
  options.warn = warn;
  cache_ = std::make_unique<ChunkCache>(data, *cached_.source, std::move(order), options);
}

void NodeCache::describe(Json& summary) const {
  const CacheTraffic traffic = cache_->traffic();
  summary["data_source_bytes"] = traffic.source_bytes;
  summary["data_scratch_bytes"] = traffic.scratch_bytes;
}

}  // namespace dlflow::runtime
