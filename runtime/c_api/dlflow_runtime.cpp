#include "runtime/c_api/dlflow_runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/c_api/exchanges.h"
#include "runtime/c_api/group.h"
#include "runtime/c_api/leaf_sum.h"
#include "runtime/c_api/reduction.h"
#include "runtime/c_api/work.h"
#include "runtime/collectives/all_gather.h"
#include "runtime/compress/compressed_sum.h"

using dlflow::Errc;
using dlflow::Error;
using namespace dlflow::runtime;
using std::chrono::milliseconds;

struct dlflow_endpoint {
  std::optional<SocketEndpoint> endpoint;
  std::string text;
};
struct dlflow_group {
  Group group;
};
struct dlflow_work {
  std::shared_ptr<Work> work;
};
struct dlflow_queue {
  std::shared_ptr<DoneQueue> queue;
};
struct dlflow_compressor {
  std::shared_ptr<CompressedSum> sum;
  size_t count;
};
struct dlflow_leaf_sum {
  Group& group;
  size_t count;
  std::optional<LeafSum> sum;  // set once all ranks have joined
};

namespace {

constexpr int kMaxTag = 1 << 30;

thread_local std::string last_error;

dlflow_status report(Errc code, std::string message) {
  last_error = std::move(message);
  return code == Errc::Unavailable ? DLFLOW_UNAVAILABLE : DLFLOW_INVALID;
}

/// Keeps exceptions from passing into C.
template <typename Function>
dlflow_status guarded(Function function) try {
  function();
  return DLFLOW_OK;
} catch (const Error& error) {
  return report(error.code(), error.what());
} catch (const std::exception& error) {
  return report(Errc::Unavailable, error.what());
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Error(Errc::InvalidInput, otherwise);
}

/// The groups of this process. A forked child closes its copies of their connections, which would
/// hide this rank's death from the others.
class Groups {
 public:
  void add(Group* group) {
    static std::once_flag once;
    std::call_once(once, [] {
      ::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); },
                       [] {
                         for (Group* known : all().groups_) known->close_in_child();
                         all().mutex_.unlock();
                       });
    });
    const std::lock_guard lock(mutex_);
    groups_.insert(group);
  }
  /// Returns false in a child, which owns nothing of the group.
  bool remove(Group* group) {
    const std::lock_guard lock(mutex_);
    groups_.erase(group);
    return ::getpid() == process_;
  }
  static Groups& all() {
    static Groups& groups = *new Groups;  // never freed: threads may still use it
    return groups;
  }

 private:
  std::mutex mutex_;
  std::set<Group*> groups_;
  pid_t process_ = ::getpid();
};

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }

void require_rank(const Group& group, int rank, const char* role) {
  require(rank >= 0 && rank < group.size(), std::string(role) + " is rank " + std::to_string(rank) +
                                                ", but the group has ranks 0 to " +
                                                std::to_string(group.size() - 1));
}

void require_tag(int tag) {
  require(tag >= 0 && tag <= kMaxTag,
          "the tag is " + std::to_string(tag) + "; 0 to 2^30 are allowed");
}

/// "all-reduce (max)": a literal, since pending calls refer to it.
std::string_view with_op(std::span<const std::string_view, 8> names, dlflow_op op) {
  return names[size_t(op)];
}
constexpr std::string_view kAllReduce[] = {
    "all-reduce",       "all-reduce (avg)",  "all-reduce (prod)", "all-reduce (min)",
    "all-reduce (max)", "all-reduce (band)", "all-reduce (bor)",  "all-reduce (bxor)"};
constexpr std::string_view kReduce[] = {"reduce",       "reduce (avg)", "reduce (product)",
                                        "reduce (min)", "reduce (max)", "reduce (band)",
                                        "reduce (bor)", "reduce (bxor)"};
constexpr std::string_view kReduceScatter[] = {
    "reduce-scatter",     "reduce-scatter avg",  "reduce-scatter prod", "reduce-scatter min",
    "reduce-scatter max", "reduce-scatter band", "reduce-scatter bor",  "reduce-scatter bxor"};

/// In the order of dlflow_method.
struct Method {
  CompressionMethod method;
  std::string_view call;
};
constexpr Method kMethods[] = {{CompressionMethod::Float16, "all-reduce fp16"},
                               {CompressionMethod::BFloat16, "all-reduce bf16"},
                               {CompressionMethod::Int8, "all-reduce int8"},
                               {CompressionMethod::TopK, "all-reduce topk"},
                               {CompressionMethod::MsTopK, "all-reduce mstopk"},
                               {CompressionMethod::RandomK, "all-reduce randomk"},
                               {CompressionMethod::Dgc, "all-reduce dgc"},
                               {CompressionMethod::PowerSgd, "all-reduce powersgd"}};

Compression checked(const dlflow_compression& c) {
  require(size_t(c.method) < std::size(kMethods), "there is no such method of compression");
  const CompressionMethod method = kMethods[c.method].method;
  if (is_sparse(method)) require(c.density > 0 && c.density <= 1, "density is in (0, 1]");
  if (method == CompressionMethod::PowerSgd) require(c.rank > 0, "rank must be at least 1");
  require(c.clip >= 0, "clip must not be less than 0");
  require(c.momentum >= 0 && c.momentum < 1, "momentum is in [0, 1)");
  require(!c.global_top_k || sends_largest(method),
          "gtopk is for methods that send the largest numbers: topk, mstopk, dgc");
  return {.method = method,
          .aggregation = c.global_top_k ? Aggregation::GlobalTopK : Aggregation::AllGather,
          .density = c.density,
          .warmup_epochs = c.warmup_epochs,
          .rank = c.rank,
          .clip = c.clip,
          .momentum = c.momentum};
}

CompressedParts parts_of(std::span<const dlflow_matrix> matrices, size_t count) {
  CompressedParts parts{.pieces = {}, .matrices = {}, .num_gradients = count};
  size_t end = 0;
  for (const dlflow_matrix& m : matrices) {
    constexpr size_t kMost = UINT32_MAX;
    require(m.first >= end && m.rows > 0 && m.columns > 0 && m.first <= count &&
                m.rows <= (count - m.first) / m.columns && m.rows * m.columns <= kMost,
            "the matrix at element " + std::to_string(m.first) +
                " is empty, too large, or overlaps the one before");
    end = m.first + m.rows * m.columns;
    parts.pieces.push_back({m.first, m.rows * m.columns});
    Matrix& matrix = parts.matrices.emplace_back(Matrix{m.first, {}, {}});
    for (size_t r = 0; r < m.rows; ++r) matrix.rows.push_back(uint32_t(r * m.columns));
    for (size_t c = 0; c < m.columns; ++c) matrix.columns.push_back(uint32_t(c));
  }
  return parts;
}

Call in_bytes(std::string_view operation, size_t size, int root = -1) {
  return {.operation = operation, .num_elements = size, .type = "bytes", .root = root};
}

}  // namespace

int dlflow_abi(void) { return DLFLOW_ABI; }

const char* dlflow_error(void) { return last_error.c_str(); }

dlflow_status dlflow_endpoint_open(const char* memory, dlflow_endpoint** endpoint) {
  return guarded([&] {
    auto opened = std::make_unique<dlflow_endpoint>();
    opened->endpoint.emplace(memory == nullptr ? "" : memory);
    opened->text = opened->endpoint->text();
    *endpoint = opened.release();
  });
}

const char* dlflow_endpoint_address(const dlflow_endpoint* endpoint) {
  return endpoint->text.c_str();
}

void dlflow_endpoint_free(dlflow_endpoint* endpoint) { delete endpoint; }

dlflow_status dlflow_group_create(dlflow_endpoint* endpoint, int rank, int size,
                                  const char* const* addresses, const dlflow_group_options* options,
                                  dlflow_group** group) {
  return guarded([&] {
    require(
        size > 0 && rank >= 0 && rank < size,
        "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks: no such rank");
    require(endpoint->endpoint.has_value(), "this endpoint already has a group: open another one");
    require(options->timeout > 0 && options->stall_timeout > 0,
            "timeouts of a group must be more than 0 ms");
    require(endpoint->text == addresses[rank],
            "rank " + std::to_string(rank) +
                ": its entry in the list of addresses is not its own address");
    SocketEndpoint own = std::move(*endpoint->endpoint);
    endpoint->endpoint.reset();
    auto made = std::unique_ptr<dlflow_group>(new dlflow_group{
        {std::move(own), rank, std::vector<std::string>(addresses, addresses + size),
         GroupOptions{milliseconds(options->timeout), milliseconds(options->stall_timeout),
                      options->name == nullptr ? "" : options->name}}});
    Groups::all().add(&made->group);
    *group = made.release();
  });
}

void dlflow_group_free(dlflow_group* group, int64_t linger) {
  if (group == nullptr || !Groups::all().remove(&group->group)) return;
  group->group.leave(milliseconds(linger));
  delete group;
}

dlflow_status dlflow_all_reduce(dlflow_group* group, void* data, size_t count, dlflow_type type,
                                dlflow_op op, dlflow_work** work) {
  return dlflow_urgent_all_reduce(group, data, count, type, op, 0, work);
}

dlflow_status dlflow_urgent_all_reduce(dlflow_group* group, void* data, size_t count,
                                       dlflow_type type, dlflow_op op, int urgency,
                                       dlflow_work** work) {
  return guarded([&] {
    require_reduction(type, op);
    require(urgency >= 0 && urgency < ChannelSpace::kLanes,
            "the urgency is " + std::to_string(urgency) + "; 0 to 3 are allowed");
    const Group::Needs needs = Group::needs_of({type, op}, count, urgency);
    require(urgency == 0 || needs.memory == Group::Needs::Memory::Sums,
            "only sums and means of fp32, fp16, bf16, and sums of int32 and int64 can be urgent");
    const Call call{
        .operation = with_op(kAllReduce, op), .num_elements = count, .type = name(type)};
    *work = new dlflow_work{group->group.start(call, needs, [=](Group& all) {
      return all.reduce({type, op}, {bytes(data), bytes(data), count}, urgency);
    })};
  });
}

dlflow_status dlflow_reduce(dlflow_group* group, void* data, size_t count, dlflow_type type,
                            dlflow_op op, int root, dlflow_work** work) {
  return guarded([&] {
    require_reduction(type, op);
    require_rank(group->group, root, "the root");
    const Call call{
        .operation = with_op(kReduce, op), .num_elements = count, .type = name(type), .root = root};
    *work = new dlflow_work{
        group->group.start(call, Group::needs_of({type, op}, count), [=](Group& all) {
          std::byte* const output = all.rank() == root ? bytes(data) : nullptr;
          return all.reduce({type, op}, {bytes(data), output, count});
        })};
  });
}

dlflow_status dlflow_reduce_scatter(dlflow_group* group, const void* input, void* output,
                                    const size_t* counts, dlflow_type type, dlflow_op op,
                                    dlflow_work** work) {
  return guarded([&] {
    require_reduction(type, op);
    std::vector<size_t> sizes(counts, counts + group->group.size());
    const Call call{.operation = with_op(kReduceScatter, op),
                    .num_elements = total_of(sizes),
                    .type = name(type)};
    for (size_t& size : sizes) size *= size_of(type);
    *work =
        new dlflow_work{group->group.start(call, Group::needs_of(total_of(sizes)), [=](Group& all) {
          return reduce_scatter_blocks(all.open_paths(total_of(sizes)), {type, op},
                                       {bytes(input), total_of(sizes)}, sizes, bytes(output));
        })};
  });
}

dlflow_status dlflow_broadcast(dlflow_group* group, void* data, size_t size, int root,
                               dlflow_work** work) {
  return guarded([&] {
    require_rank(group->group, root, "the root");
    *work = new dlflow_work{group->group.start(
        in_bytes("broadcast", size, root), Group::needs_of(size), [=](Group& all) {
          return broadcast(all.open_paths(size), {bytes(data), size}, root);
        })};
  });
}

dlflow_status dlflow_all_gather(dlflow_group* group, const void* input, void* output,
                                const size_t* sizes, dlflow_work** work) {
  return guarded([&] {
    const std::vector<size_t> blocks(sizes, sizes + group->group.size());
    const size_t total = total_of(blocks);
    *work = new dlflow_work{
        group->group.start(in_bytes("all-gather", total), Group::needs_of(total), [=](Group& all) {
          return all_gather_blocks(all.open_paths(total),
                                   {bytes(input), blocks[size_t(all.rank())]},
                                   {bytes(output), total}, blocks);
        })};
  });
}

dlflow_status dlflow_all_to_all(dlflow_group* group, const void* input, const size_t* input_sizes,
                                void* output, const size_t* output_sizes, dlflow_work** work) {
  return guarded([&] {
    const size_t ranks = size_t(group->group.size()), own = size_t(group->group.rank());
    const std::vector<size_t> sent(input_sizes, input_sizes + ranks);
    const std::vector<size_t> received(output_sizes, output_sizes + ranks);
    require(sent[own] == received[own], "all-to-all: rank " + std::to_string(own) +
                                            " sends itself " + std::to_string(sent[own]) +
                                            " bytes and expects " + std::to_string(received[own]));
    // Sizes may differ between ranks, so they cannot agree that the messages are small.
    *work = new dlflow_work{
        group->group.start({.operation = "all-to-all"}, Group::needs_of(SIZE_MAX), [=](Group& all) {
          return all_to_all_blocks(all.open_paths(SIZE_MAX), {bytes(input), total_of(sent)}, sent,
                                   {bytes(output), total_of(received)}, received);
        })};
  });
}

dlflow_status dlflow_gather(dlflow_group* group, const void* input, size_t size, void* output,
                            int root, dlflow_work** work) {
  return guarded([&] {
    require_rank(group->group, root, "the root");
    *work = new dlflow_work{
        group->group.start(in_bytes("gather", size, root), Group::needs_of(size), [=](Group& all) {
          return gather(all.open_paths(size), {bytes(input), size}, bytes(output), root);
        })};
  });
}

dlflow_status dlflow_scatter(dlflow_group* group, const void* input, size_t size, void* output,
                             int root, dlflow_work** work) {
  return guarded([&] {
    require_rank(group->group, root, "the root");
    *work = new dlflow_work{
        group->group.start(in_bytes("scatter", size, root), Group::needs_of(size), [=](Group& all) {
          return scatter(all.open_paths(size), bytes(input), {bytes(output), size}, root);
        })};
  });
}

dlflow_status dlflow_barrier(dlflow_group* group, dlflow_work** work) {
  return guarded([&] {
    *work = new dlflow_work{group->group.start(
        {.operation = "barrier"}, {}, [](Group& all) { return barrier(all.open_link()); })};
  });
}

dlflow_status dlflow_monitored_barrier(dlflow_group* group, int64_t timeout, dlflow_work** work) {
  return guarded([&] {
    require(timeout >= 0, "a monitored barrier's timeout must not be less than 0 ms");
    *work = new dlflow_work{
        group->group.start({.operation = "monitored barrier"}, {}, [timeout](Group& all) {
          return monitored_barrier(all.open_link(), milliseconds(timeout));
        })};
  });
}

dlflow_status dlflow_compressor_create(const dlflow_compression* compression,
                                       const dlflow_matrix* matrices, size_t num_matrices,
                                       size_t count, dlflow_compressor** compressor) {
  return guarded([&] {
    const Compression how = checked(*compression);
    CompressedParts parts = parts_of({matrices, num_matrices}, count);
    *compressor = new dlflow_compressor{
        std::make_shared<CompressedSum>(how, std::move(parts), count, compression->seed), count};
  });
}

void dlflow_compressor_free(dlflow_compressor* compressor) { delete compressor; }

dlflow_status dlflow_compressed_all_reduce(dlflow_group* group, dlflow_compressor* compressor,
                                           float* data, uint64_t step, uint64_t epoch,
                                           dlflow_work** work) {
  return guarded([&] {
    const auto sum = compressor->sum;
    const size_t count = compressor->count;
    const Call call{.operation = kMethods[size_t(sum->how().method)].call,
                    .num_elements = count,
                    .type = name(DLFLOW_F32)};
    *work = new dlflow_work{group->group.start(call, {}, [=](Group& all) {
      sum->begin(step, epoch);
      return sum->sum(all.open_link(), 0, {data, count});
    })};
  });
}

float* dlflow_compressor_state(dlflow_compressor* compressor, dlflow_compressor_part part,
                               size_t* count) {
  CompressedSum& sum = *compressor->sum;
  const std::span<float> numbers = part == DLFLOW_RESIDUAL   ? sum.residual()
                                   : part == DLFLOW_VELOCITY ? sum.velocity()
                                                             : sum.right_factors();
  *count = numbers.size();
  return numbers.data();
}

dlflow_status dlflow_leaf_sum_create(dlflow_group* group, size_t num_leaves, size_t count,
                                     dlflow_leaf_sum** sum, dlflow_work** work) {
  return guarded([&] {
    require(num_leaves > 0, "a sum over leaves needs at least 1 leaf");
    const auto made = std::make_shared<dlflow_leaf_sum>(group->group, count);
    group->group.keep(made);
    const Call call{
        .operation = "leaves of a sum", .num_elements = count, .type = name(DLFLOW_F32)};
    const Group::Needs own{.memory = Group::Needs::Memory::Own};
    *work = new dlflow_work{group->group.start(call, own, [=](Group& all) {
      made->sum.emplace(all.communicator(), num_leaves, count);
      return barrier(all.open_link());
    })};
    *sum = made.get();
  });
}

dlflow_leaves dlflow_leaf_sum_leaves(const dlflow_leaf_sum* sum) {
  return {sum->sum->first_leaf(), sum->sum->num_leaves()};
}

dlflow_status dlflow_leaf_sum_add(dlflow_leaf_sum* sum, size_t leaf, float scale,
                                  const dlflow_piece* pieces, size_t num_pieces) {
  return guarded([&] {
    LeafSum& leaves = *sum->sum;
    require(leaf >= leaves.first_leaf() && leaf - leaves.first_leaf() < leaves.num_leaves(),
            "leaf " + std::to_string(leaf) + " does not belong to this rank, which has " +
                std::to_string(leaves.num_leaves()) + " leaves from leaf " +
                std::to_string(leaves.first_leaf()));
    for (const dlflow_piece& piece : std::span(pieces, num_pieces)) {
      require(
          piece.first <= sum->count && piece.count <= sum->count - piece.first,
          "the piece at element " + std::to_string(piece.first) + " ends after the vector's end");
      leaves.add(leaf - leaves.first_leaf(), piece.first, piece.count, piece.data, scale);
    }
  });
}

dlflow_status dlflow_leaf_sum_start(dlflow_leaf_sum* sum, size_t first, size_t count,
                                    dlflow_work** work) {
  return guarded([&] {
    require(first <= sum->count && count <= sum->count - first,
            "the range to sum ends after the vector's end");
    const Call call{
        .operation = "sum over leaves", .num_elements = count, .type = name(DLFLOW_F32)};
    *work = new dlflow_work{
        sum->group.start(call, {}, [=](Group&) { return sum->sum->sum(first, count); })};
  });
}

float* dlflow_leaf_sum_result(dlflow_leaf_sum* sum) { return sum->sum->result().data(); }

dlflow_status dlflow_send(dlflow_group* group, const void* data, size_t size, int to, int tag,
                          dlflow_work** work) {
  return guarded([&] {
    require_rank(group->group, to, "the receiver");
    require_tag(tag);
    *work = new dlflow_work{group->group.start_send({bytes(data), size}, to, tag)};
  });
}

dlflow_status dlflow_receive(dlflow_group* group, void* data, size_t size, int from, int tag,
                             dlflow_work** work) {
  return guarded([&] {
    require_rank(group->group, from, "the sender");
    require_tag(tag);
    *work = new dlflow_work{group->group.start_receive({bytes(data), size}, from, tag)};
  });
}

dlflow_status dlflow_receive_from_any(dlflow_group* group, void* data, size_t size, int tag,
                                      dlflow_work** work) {
  return guarded([&] {
    require_tag(tag);
    *work = new dlflow_work{group->group.start_receive_from_any({bytes(data), size}, tag)};
  });
}

int dlflow_work_source(const dlflow_work* work) { return work->work->source(); }

dlflow_status dlflow_work_test(dlflow_work* work) {
  if (!work->work->is_done()) return DLFLOW_PENDING;
  const auto failure = work->work->failure();
  return failure ? report(failure->code, failure->message) : DLFLOW_OK;
}

dlflow_status dlflow_work_wait(dlflow_work* work, int64_t timeout) {
  Group* const group = timeout == 0 ? nullptr : work->work->expecting_group();
  if (group != nullptr) group->wait_for(*work->work, milliseconds(timeout));
  return dlflow_work_test(work);
}

dlflow_status dlflow_work_advance(dlflow_work* work, int threads) {
  Group* const group = work->work->expecting_group();
  if (group != nullptr) group->advance(*work->work, threads);
  return dlflow_work_test(work);
}

void dlflow_work_free(dlflow_work* work) { delete work; }

dlflow_queue* dlflow_queue_create(void) { return new dlflow_queue{std::make_shared<DoneQueue>()}; }

void dlflow_queue_free(dlflow_queue* queue) { delete queue; }

void dlflow_work_notify(dlflow_work* work, dlflow_queue* queue, uint64_t id) {
  work->work->notify(queue->queue, id);
}

dlflow_status dlflow_queue_pop(dlflow_queue* queue, int64_t timeout, uint64_t* id) {
  const auto popped = queue->queue->pop(milliseconds(timeout));
  if (!popped) return DLFLOW_PENDING;
  *id = *popped;
  return DLFLOW_OK;
}
