#include "runtime/train/node_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/process.h"
#include "runtime/comm/communicator.h"
#include "runtime/train/evaluation.h"

namespace dlflow::runtime {
namespace {

void warn(const std::string& text) {
  std::fprintf(stderr, "warning: %s: %s\n", host_name().c_str(), text.c_str());
}

/// What each rank of the node looks at. Collective.
void add_ranks(VisitOrder& order, Communicator& comm, const IndexRange& own_leaves) {
  const auto told = comm.allocate_shared(sizeof(IndexRange));
  std::memcpy(told[size_t(comm.node_rank())], &own_leaves, sizeof(IndexRange));
  comm.barrier();
  for (const std::byte* theirs : told) {
    std::memcpy(&order.leaves.emplace_back(), theirs, sizeof(IndexRange));
  }
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (comm.nodes()[size_t(rank)] != comm.nodes()[size_t(comm.rank())]) continue;
    order.batches.push_back(
        batches_of(order.validation_chunks.size(), order.validation_batch, rank, comm.size()));
  }
}

/// What the first rank of each node says, by node. Collective.
std::vector<Json> from_each_node(Communicator& comm, const Json& mine) {
  std::vector<Json> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (size_t(comm.nodes()[size_t(rank)]) != all.size()) continue;  // not the first of its node
    all.push_back(Json::parse(broadcast_text(comm, mine.dump(), rank)));
  }
  return all;
}

size_t node_of(const Communicator& comm) { return size_t(comm.nodes()[size_t(comm.rank())]); }

size_t num_nodes(const Communicator& comm) {
  return size_t(*std::max_element(comm.nodes().begin(), comm.nodes().end())) + 1;
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

/// Null, and a warning, if it cannot.
std::unique_ptr<PeerServer> start_server(const ChunkedDataset& data, NodePart& part) {
  try {
    return std::make_unique<PeerServer>(data, part);
  } catch (const std::exception& error) {
    warn(std::string("the cache shares nothing with other nodes: ") + error.what());
    return nullptr;
  }
}

}  // namespace

NodeCache::NodeCache(Communicator& comm, const CachedData& cached, VisitOrder order,
                     const std::optional<IndexRange>& own_leaves)
    : cached_(cached) {
  const bool shares = cached_.budget.share && num_nodes(comm) > 1;
  add_ranks(order, comm, own_leaves.value_or(IndexRange{}));
  CacheRoom room = divide_budget(cached_.budget, *cached_.data, order, node_of(comm),
                                 shares ? num_nodes(comm) : 1);
  CacheOptions options = take_room(comm, room);
  options.chunks_per_step = order.most_chunks_per_step();
  options.plan_memory =
      comm.allocate_shared(comm.node_rank() == 0 ? SharedPlan::bytes_for(options.planned()) : 0)[0];
  options.trains = own_leaves.has_value();
  if (shares) options.shared = share(comm, room, options);
  cache_ = std::make_unique<ChunkCache>(*cached_.data, *cached_.source, std::move(order), options);
}

/// Of the disk there may be less than `room` says, which is then put right. Collective.
CacheOptions NodeCache::take_room(Communicator& comm, CacheRoom& room) {
  const bool first = comm.node_rank() == 0;
  if (first) room_ = make_room(cached_, room.scratch_slots + room.part_scratch_slots);
  const Json mine = {{"file", room_ ? room_->file().string() : ""},
                     {"slots", room_ ? room_->num_slots() : 0}};
  const Json told = from_each_node(comm, mine)[node_of(comm)];
  room = with_disk_of(room, told.at("slots").get<size_t>());
  CacheOptions options;
  options.rank = comm.node_rank();
  options.shape = {room.memory_slots, cached_.data->chunk_bytes(), comm.node_size()};
  options.scratch_file = told.at("file").get<std::string>();
  options.scratch_slots = room.scratch_slots;
  options.memory = comm.allocate_shared(first ? ChunkMemory::bytes_for(options.shape) : 0)[0];
  options.warn = warn;
  return options;
}

/// Collective.
SharedChunks NodeCache::share(Communicator& comm, const CacheRoom& room,
                              const CacheOptions& options) {
  const ChunkedDataset& data = *cached_.data;
  const bool first = comm.node_rank() == 0;
  const NodePart::Dimensions shape = {node_of(comm),          num_nodes(comm),
                                      room.part_memory_slots, room.part_scratch_slots,
                                      data.chunk_bytes(),     room.scratch_slots};
  std::byte* const memory = comm.allocate_shared(first ? NodePart::bytes_for(shape) : 0)[0];
  const ChunkMemory books(options.memory, options.shape);
  part_ = std::make_unique<NodePart>(data, *cached_.source, books, memory, shape,
                                     options.scratch_file, warn);
  if (first) server_ = start_server(data, *part_);
  const Json mine = {{"endpoint", server_ ? to_string(server_->endpoint()) : ""},
                     {"kept", server_ ? part_->size() : 0}};
  std::vector<PeerNode> nodes;
  for (const Json& told : from_each_node(comm, mine)) {
    nodes.push_back(
        {endpoint_from(told.at("endpoint").get<std::string>()), told.at("kept").get<size_t>()});
  }
  links_ = std::make_unique<PeerLinks>(data, books, std::move(nodes), node_of(comm), warn);
  return {part_.get(), links_.get()};
}

void NodeCache::describe(Json& summary) const {
  const CacheTraffic traffic = cache_->traffic();
  summary["data_source_bytes"] = traffic.source_bytes;
  summary["data_scratch_bytes"] = traffic.scratch_bytes;
  summary["data_peer_bytes"] = traffic.peer_bytes;
}

}  // namespace dlflow::runtime
