#include "runtime/reduce/reducer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/collectives/message_allreduce.h"
#include "runtime/collectives/vector_ops.h"

namespace dlflow::runtime {
namespace {

/// Returns `layout`. Throws on every rank, with the same list, if any rank's differs from rank 0's.
FlatLayout same_on_all(Communicator& comm, FlatLayout layout) {
  std::string sizes;
  for (size_t i = 0; i < layout.num_parameters(); ++i)
    sizes += std::to_string(layout.size(i)) + ",";
  const std::string mine = sha256_hex(sizes);
  std::string first = mine;
  comm.broadcast(std::as_writable_bytes(std::span(first)), 0);

  std::vector<float> differs(comm.size(), 0.0f);
  differs[comm.rank()] = mine == first ? 0.0f : 1.0f;
  run(comm, message_allreduce(Algorithm::Ring, Link(comm), std::span(differs)));
  std::vector<std::string> ranks;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (differs[rank] != 0) ranks.push_back(std::to_string(rank));
  }
  if (ranks.empty()) return layout;
  throw Error(Errc::InvalidInput, "the parameters of rank " + join(ranks, ", ") +
                                      " are not those of rank 0; start all ranks with the same "
                                      "model and the same program");
}

/// Whether a rank's leaves are added only when consumed, in one pass over all of them, because
/// their memory is small; otherwise each is added as it is ready. All ranks decide alike.
bool leaves_stay_apart(const Communicator& comm, const FlatLayout& layout,
                       const ReducerOptions& options) {
  constexpr size_t kSmall = 64 << 20;
  const size_t leaves = (options.num_leaves + size_t(comm.size()) - 1) / size_t(comm.size());
  return comm.node_size() == comm.size() && !options.caller_adds_leaves &&
         leaves * layout.num_elements() * sizeof(float) <= kSmall;
}

LeafShare share_of(const Communicator& comm, const FlatLayout& layout,
                   const ReducerOptions& options) {
  const size_t num_leaves = options.num_leaves;
  if (options.mode == SumMode::Fast) {
    DLFLOW_CHECK(num_leaves % size_t(comm.size()) == 0);
    return leaves_of_rank(num_leaves / size_t(comm.size()), comm.rank());
  }
  const auto share = leaves_stay_apart(comm, layout, options) ? leaves_as_parts : leaf_share;
  return share(num_leaves, comm.rank(), comm.size());
}

/// With two ranks on two cores, summing everything at the end or in buckets of 1 MiB makes no
/// difference: a step of 2.7 MB of gradients takes 0.79 or 0.80 ms, of 16 MB 9.7 or 10.1 ms. On one
/// node nothing overlaps, and reading a peer core's fresh writes is slow; so buckets are large.
size_t usual_bucket_bytes(const Communicator& comm) {
  return comm.node_size() == comm.size() ? 8 << 20 : 1 << 20;
}

/// Between nodes a bucket travels in pieces, since data under way cannot be overtaken: on a link of
/// 1 Gbit/s this piece takes 2 ms. Compressed data is small, and compressed as a whole.
size_t piece_elements(const Communicator& comm, const ReducerOptions& options) {
  if (comm.node_size() == comm.size() || options.compressed) return SIZE_MAX;
  return (size_t{256} << 10) / sizeof(float);
}

AllreduceOptions sum_of(const Communicator& comm, const FlatLayout& layout,
                        const ReducerOptions& options) {
  if (options.mode == SumMode::Fast) return {.wire = options.wire, .rules = options.rules};
  DLFLOW_CHECK(!options.compressed);
  const auto order = leaves_stay_apart(comm, layout, options) ? sum_of_leaves : sum_in_leaf_order;
  return {.order = order(options.num_leaves, comm.size()), .rules = options.rules};
}

std::unique_ptr<CompressedSum> compressed_sum(const FlatLayout& layout,
                                              const std::optional<CompressedGradients>& gradients) {
  if (!gradients) return nullptr;
  CompressedParts parts;
  for (const size_t parameter : gradients->parameters) {
    parts.pieces.push_back({layout.offset(parameter), layout.size(parameter)});
  }
  parts.matrices = gradients->matrices;
  const size_t end = gradients->num_gradients;
  parts.num_gradients = end == layout.num_parameters() ? layout.num_elements() : layout.offset(end);
  return std::make_unique<CompressedSum>(gradients->how, std::move(parts), layout.num_elements(),
                                         gradients->seed);
}

/// Returns `options`, with `compressed` in place of the algorithms that send messages.
AllreduceOptions through(CompressedSum* compressed, const ReducerOptions& reducer,
                         AllreduceOptions options) {
  if (!compressed) return options;
  options.by_messages = [compressed](Link link, size_t first, std::span<float> values) {
    return compressed->sum(std::move(link), first, values);
  };
  options.nodes_first = reducer.compressed->how.aggregation == Aggregation::Hierarchical;
  return options;
}

/// Returns a name such as "gradients conv1.weight to fc2.bias".
std::string name_of(const Bucket& bucket, std::span<const std::string> names) {
  const auto name = [&](size_t parameter) {
    return names.empty() ? std::to_string(parameter + 1) : names[parameter];
  };
  const size_t last = bucket.end_parameter - 1;
  const std::string first = "gradients " + name(bucket.first_parameter);
  return bucket.first_parameter == last ? first : first + " to " + name(last);
}

}  // namespace

Reducer::Reducer(Communicator& comm, FlatLayout layout, ReducerOptions options)
    : comm_(comm),
      layout_(same_on_all(comm, std::move(layout))),
      leaves_(share_of(comm, layout_, options)),
      buckets_(make_buckets(layout_, options.bucket_bytes.value_or(usual_bucket_bytes(comm)))),
      piece_elements_(piece_elements(comm, options)),
      bucket_of_(layout_.num_parameters()),
      priority_(options.priority),
      compressed_(compressed_sum(layout_, options.compressed)),
      allreduce_(comm, layout_.num_elements(),
                 through(compressed_.get(), options, sum_of(comm, layout_, options)),
                 std::move(options.consume)),
      timeline_(options.timeline ? options.timeline : &silent_) {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    bucket_names_.push_back(name_of(buckets_[i], options.names));
    for (size_t p = buckets_[i].first_parameter; p < buckets_[i].end_parameter; ++p) {
      bucket_of_[p] = i;
    }
  }
  waiting_ = make_aligned_floats((leaves_.most_parts - leaves_.num_parts) * layout_.num_elements());
  size_t height = 0;
  for (const uint8_t additions : leaves_.additions) {
    height_of_.push_back(height);
    height = height + 1 - additions;
  }
}

/// The stack of leaves. In exact mode the sum of a step must have the same bits however many ranks
/// there are. So the leaves 0 .. L-1 of the batch are added along one binary tree, whatever rank
/// has them (collectives/sum_order.h), and a rank with the leaves 3, 4 and 5 of 8 may add 4 and 5,
/// but must hand on 3 and (4 + 5) as two parts: 3 belongs to 2, which is on another rank.
///
/// To keep every leaf until the end takes as many gradients as there are leaves. A stack takes at
/// most 2 lg n + 1 for n of them: leaf i is written at the height that the stack has before it;
/// then the two topmost are replaced by their sum, additions[i] times. For the leaves 0 .. 3 of one
/// rank:
///
///   leaf 0 -> level 0 | leaf 1 -> level 1; 0 += 1 | leaf 2 -> level 1 | leaf 3 -> level 2; 1 += 2;
///   0 += 1
///
/// What is left are the rank's parts, the lowest levels. They lie in memory that peers read
/// (Allreduce::part); what is higher is this rank's alone (`waiting_`).
///
/// All of it goes parameter by parameter, not leaf by leaf: each has a stack of its own height at
/// any time, since the backward pass reaches it at its own time. ready(leaf, parameter) adds that
/// parameter's slots at once, while they are in the cache, and after the last leaf its bucket can
/// leave while earlier layers still compute. Hence the rule that a parameter's leaves come one
/// after the other: leaf i + 1 overwrites a level that leaf i has left.
///
/// height_of_ is the height below each leaf, worked out once, so that a gradient has the same
/// address in every step. Fast mode has the same code with a tree of each rank's own.
std::span<float> Reducer::gradients(size_t leaf) { return level(height_of_.at(leaf)); }

/// The stack's entry at `height`: the lowest are parts of this rank, which peers read.
std::span<float> Reducer::level(size_t height) {
  if (height < leaves_.num_parts) return allreduce_.part(height);
  const size_t size = layout_.num_elements();
  return {waiting_.get() + (height - leaves_.num_parts) * size, size};
}

void Reducer::begin(uint64_t step, uint64_t epoch) {
  finish();
  if (compressed_) compressed_->begin(step, epoch);
  started_.clear();
  missing_.clear();
  for (const Bucket& bucket : buckets_) {
    missing_.push_back(bucket.end_parameter - bucket.first_parameter);
  }
}

void Reducer::ready(size_t leaf, size_t parameter) {
  size_t top = height_of_.at(leaf);
  for (uint8_t n = leaves_.additions[leaf]; n > 0; --n, --top) {
    add(layout_.slot(level(top - 1), parameter), layout_.slot(level(top), parameter));
  }
  if (leaf + 1 == leaves_.count) ready(parameter);
}

std::vector<float*> Reducer::parts(size_t parameter) {
  std::vector<float*> parts;
  for (size_t i = 0; i < leaves_.num_parts; ++i) {
    parts.push_back(layout_.slot(level(i), parameter).data());
  }
  return parts;
}

void Reducer::ready(size_t parameter) {
  size_t& missing = missing_.at(bucket_of_.at(parameter));
  DLFLOW_CHECK(missing > 0);
  --missing;
  if (holds_) return;
  const Timed timed(*timeline_, Timeline::Row::Computation, kSumSpan);
  start_complete_buckets();
  poll();
}

void Reducer::release() {
  holds_ = false;
  start_complete_buckets();
}

/// Starts buckets in order, so that all ranks start the same ones one after the other.
void Reducer::start_complete_buckets() {
  while (started_.size() < missing_.size() && missing_[started_.size()] == 0) start_next_bucket();
}

void Reducer::end() {
  while (started_.size() < buckets_.size()) start_next_bucket();
}

void Reducer::start_next_bucket() {
  const Bucket& bucket = buckets_[started_.size()];
  comm_.submit({"all-reduce", bucket_names_[started_.size()], bucket.num_elements, "fp32"});
  // Earlier ranges are needed earlier; but the last parameters come first, because the end of a
  // step waits for them.
  const int64_t needed = started_.empty() ? INT64_MAX : -int64_t(bucket.first_element);
  const int64_t urgency = priority_ ? needed : 0;
  Departure departure{{}, timeline_->now()};
  size_t done = 0;
  do {
    const size_t count = std::min(bucket.num_elements - done, piece_elements_);
    departure.pieces.push_back(allreduce_.start(bucket.first_element + done, count, urgency));
    done += count;
  } while (done < bucket.num_elements);
  started_.push_back(std::move(departure));
}

std::vector<size_t> Reducer::bucket_bytes() const {
  std::vector<size_t> bytes;
  for (const Bucket& bucket : buckets_) bytes.push_back(bucket.num_elements * sizeof(float));
  return bytes;
}

bool Reducer::done(const Departure& departure) const {
  const auto is_done = [this](Allreduce::Ticket piece) { return allreduce_.done(piece); };
  return std::ranges::all_of(departure.pieces, is_done);
}

void Reducer::poll() {
  allreduce_.poll();
  record_done();
}

void Reducer::wait(size_t parameter) {
  const size_t bucket = bucket_of_.at(parameter);
  if (bucket >= started_.size() || done(started_[bucket])) return;
  const auto begin = Timeline::Clock::now();
  for (const Allreduce::Ticket piece : started_[bucket].pieces) allreduce_.wait(piece);
  record_done();
  waited_ += Timeline::Clock::now() - begin;
  timeline_->add(Timeline::Row::Waiting, bucket_names_[bucket], begin);
}

void Reducer::finish() {
  for (size_t bucket = 0; bucket < started_.size(); ++bucket) {
    wait(buckets_[bucket].first_parameter);
  }
}

void Reducer::record_done() {
  if (!timeline_->recording()) return;
  for (size_t i = 0; i < started_.size(); ++i) {
    if (started_[i].seen_done || !done(started_[i])) continue;
    started_[i].seen_done = true;
    timeline_->add(Timeline::Row::Communication, bucket_names_[i], started_[i].begin);
  }
}

}  // namespace dlflow::runtime
