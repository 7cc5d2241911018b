#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

/// Which chunk of a data set lies where, step after step: decided from the order in which chunks
/// will be needed, which is known. What is needed last goes first (Belady, IBM Systems Journal 5
/// (1966)): no order of eviction loads less. A pure function of that order and of the capacities,
/// so that every rank of a node can work it out for itself and all agree.
namespace dlflow::runtime {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

/// Chunks in the order of their next use, the farthest first; equal ones by their number.
class FarthestFirst {
 public:
  explicit FarthestFirst(size_t num_chunks) : next_use_(num_chunks) {}

  bool empty() const { return order_.empty(); }
  uint32_t farthest() const { return order_.rbegin()->second; }
  uint64_t farthest_use() const { return order_.rbegin()->first; }

  void insert(uint32_t chunk, uint64_t next_use) {
    next_use_[chunk] = next_use;
    order_.emplace(next_use, chunk);
  }
  bool erase(uint32_t chunk) { return order_.erase({next_use_[chunk], chunk}) > 0; }

  /// All chunks, for whoever knows their next uses better now.
  std::vector<uint32_t> take_all();

 private:
  std::vector<uint64_t> next_use_;
  std::set<std::pair<uint64_t, uint32_t>> order_;
};

/// When each chunk is needed, for as far ahead as is known.
class FutureUses {
 public:
  FutureUses(size_t num_chunks, uint64_t first_step)
      : num_chunks_(num_chunks), known_(first_step) {}

  /// The chunks of the steps from known_steps() on, distinct within a step.
  void append(std::span<const std::vector<uint32_t>> steps);

  /// Steps below this one are known.
  uint64_t known_steps() const { return known_; }

  /// The first step after `step` that needs `chunk`, or kNever. Steps never go back.
  uint64_t after(uint64_t step, uint32_t chunk);

 private:
  struct Part {
    uint64_t first, end;          // its steps
    std::vector<uint32_t> begin;  // of each chunk, in `uses`; moves on as time passes
    std::vector<uint32_t> last;   // behind its last one
    std::vector<uint32_t> uses;   // steps, counted from `first`
  };
  size_t num_chunks_;
  uint64_t known_;
  std::deque<Part> parts_;
};

/// A load that another one has to wait for: it is over once `slot` of the memory has it.
struct EarlierLoad {
  uint32_t slot = 0;
  uint64_t number = 0;  ///< 0: there is none
};

/// One chunk on its way into memory.
struct ChunkLoad {
  uint64_t number = 0;  ///< from 1 on, in the order of need
  uint32_t chunk = 0;
  uint32_t slot = 0;        ///< of the memory
  uint64_t free_after = 0;  ///< `slot` may be written once every step below this one is over
  uint32_t evicted = 0;     ///< what lay there, if `demote_to` says that it goes to scratch

  /// Slots of the scratch: where the chunk comes from, else from the source; and where what is
  /// evicted goes to, else away.
  std::optional<uint32_t> promote_from, demote_to;
  std::array<EarlierLoad, 2> after;  ///< those that used these slots of the scratch before, if any
};

/// A chunk that a step needs: in `slot` once load `number` is over.
struct ChunkPlace {
  uint32_t chunk = 0, slot = 0;
  uint64_t number = 0;
};

/// The chunks of one step, and the loads that bring them in.
struct StepChunks {
  uint64_t step = 0;
  std::vector<ChunkLoad> loads;
  std::vector<ChunkPlace> places;  ///< all chunks of the step, by chunk
};

struct ChunkCapacity {
  size_t memory_slots = 0, scratch_slots = 0;

  /// Steps before its own in which a load can be under way: what they use is not evicted for it.
  /// 0: Belady's algorithm as it is in books; else its choice among the others.
  uint64_t lookahead = 0;
};

/// As much lookahead as costs an eighth of the memory, but one step if half of the memory will do,
/// and at most 16. Throws Error{InvalidInput} unless a step of `chunks_per_step` fits.
uint64_t lookahead_for(size_t memory_slots, size_t chunks_per_step);

class ChunkPlan {
 public:
  /// \param first_step   what the first step is called
  /// \param is_elsewhere  chunks that are not to be kept on scratch; empty: none
  ChunkPlan(size_t num_chunks, const ChunkCapacity& capacity, uint64_t first_step = 0,
            std::vector<bool> is_elsewhere = {});

  /// The chunks of steps that follow those known so far, distinct within a step. The more is known
  /// when a step is planned, the better.
  void append(std::vector<std::vector<uint32_t>> steps);

  uint64_t known_steps() const { return future_.known_steps(); }

  /// The step after the last one; it must be known.
  StepChunks next();

 private:
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

  struct State {
    uint32_t slot = kNowhere;  // of the memory
    uint64_t number = 0;       // of the load that brought it there
    uint64_t last_use = 0;
    uint32_t scratch_slot = kNowhere;  // whole there, also while it is in memory
  };

  void make_evictable(uint64_t step);
  void load(uint32_t chunk, StepChunks& planned);
  /// Makes room in memory; what is evicted goes to scratch if it is needed before what lies there.
  void evict(ChunkLoad& load);
  std::optional<uint32_t> take_scratch_slot(uint64_t next_use);
  EarlierLoad use_scratch(uint32_t scratch_slot, const ChunkLoad& load);

  ChunkCapacity capacity_;
  std::vector<bool> is_elsewhere_;
  FutureUses future_;
  std::deque<std::vector<uint32_t>> steps_;  // known and not planned
  uint64_t step_;                            // the first of them
  uint64_t num_loads_ = 0;
  std::vector<State> states_;  // of each chunk
  FarthestFirst evictable_, on_scratch_;
  std::deque<std::pair<uint64_t, uint32_t>> recent_;  // uses within the lookahead
  uint32_t used_slots_ = 0, used_scratch_slots_ = 0;
  std::vector<EarlierLoad> last_on_scratch_;  // of each slot there; number 0: none
};

}  // namespace dlflow::runtime
