#include "runtime/cache/chunk_cache.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "runtime/cache/background_thread.h"
#include "runtime/cache/chunk_plan.h"
#include "runtime/cache/shared_plan.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kStepsAhead = 64;
constexpr std::chrono::microseconds kLongest = 5ms;  // between two looks at other ranks
constexpr uint64_t kOfPart = 0;                      // the number of a load that is not in the plan

/// Where the chunks of a step are.
struct Places {
  uint64_t step;
  std::vector<ChunkPlace> places;
};

/// The next step of either kind that a rank has before it.
struct NextSteps {
  uint64_t training = 0, validation = 0;
  uint64_t first() const { return std::min(training, validation); }
};

}  // namespace

class ChunkCache::Worker {
 public:
  Worker(const ChunkedDataset& data, ChunkSource& source, VisitOrder order, CacheOptions options)
      : data_(data),
        order_(std::move(order)),
        options_(std::move(options)),
        memory_(options_.memory, options_.shape),
        shared_plan_(options_.plan_memory, options_.planned()),
        part_(options_.shared.part),
        fetch_(data, source, memory_, options_.shared, options_.scratch_file, options_.warn),
        training_(*this, true),
        validation_(*this, false) {}

  ~Worker() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  void start(uint64_t epoch, uint64_t step) {
    const bool is_over = step == order_.train_steps() && step > 0;
    const uint64_t first =
        is_over ? (epoch + 1) * order_.steps_per_epoch() : epoch * order_.steps_per_epoch() + step;
    next_ = {next_training(first), order_.next_validation(first, options_.rank)};
    memory_.set_done(options_.rank, next_.first());
    if (options_.rank == 0) {
      in_background([this, first](const std::stop_token& stop) { plan(stop, first); });
    }
    in_background([this, first](const std::stop_token& stop) { hear(stop, first); });
    for (size_t i = 0; i < kBackgroundThreads; ++i) {
      in_background([this](const std::stop_token& stop) { read(stop); });
    }
  }

  StepImages& training() { return training_; }
  StepImages& validation() { return validation_; }
  CacheTraffic traffic() const { return memory_.traffic(); }

 private:
  /// Training or validation.
  class Visitor final : public StepImages {
   public:
    Visitor(Worker& worker, bool trains) : worker_(worker), trains_(trains) {}

    void begin(uint64_t epoch, uint64_t step) override {
      step_ = trains_ ? epoch * worker_.order_.steps_per_epoch() + step : worker_.next_validation();
      places_ = &worker_.wait_for_plan(step_);
    }

    const void* find(const void* image) override {
      const ImagePlace place = worker_.data_.place_of(image);
      if (const NodePart* part = worker_.part_; part && part->keeps_in_memory(place.chunk)) {
        worker_.wait_for_part(place.chunk);
        return part->in_memory(place.chunk).data() + place.offset;
      }
      const auto found = std::lower_bound(
          places_->begin(), places_->end(), place.chunk,
          [](const ChunkPlace& chunk, uint32_t wanted) { return chunk.chunk < wanted; });
      DLFLOW_CHECK(found != places_->end() && found->chunk == place.chunk);
      worker_.wait_for_load(*found);
      return worker_.memory_.slot(found->slot).data() + place.offset;
    }

    void end() override { worker_.set_done(step_, trains_); }
    void stop() override { worker_.stop(); }
    std::atomic<uint64_t>& arrivals() override { return worker_.memory_.arrivals(); }

   private:
    Worker& worker_;
    bool trains_;
    uint64_t step_ = 0;
    const std::vector<ChunkPlace>* places_ = nullptr;
  };

  /// What one of the rank's threads does. A failure is told to all ranks of the node.
  template <typename Work>
  void in_background(Work work) {
    threads_.emplace_back([this, work](const std::stop_token& stop) {
      become_background_thread();
      try {
        work(stop);
      } catch (const Error& error) {
        if (!stop.stop_requested()) memory_.fail(error);
      } catch (const std::exception& error) {
        memory_.fail(Error(Errc::Unavailable, error.what()));
      }
      changed_.notify_all();
    });
  }

  /// For all ranks of the node, step by step from `first` on.
  void plan(const std::stop_token& stop, uint64_t first) {
    const size_t slots = options_.shape.num_slots;
    const ChunkCapacity capacity{slots, options_.scratch_slots,
                                 lookahead_for(slots, std::min(slots, options_.chunks_per_step))};
    ChunkPlan plan(data_.num_chunks(), capacity, first, kept_for_all());
    std::deque<std::vector<uint32_t>> of_part;
    for (uint64_t step = first; step < order_.end(); ++step) {
      know_until(step / order_.steps_per_epoch() + 1, plan, of_part);
      const PlannedStep planned{plan.next(), std::move(of_part.front())};
      of_part.pop_front();
      if (!poll(stop, [&] { return has_room(step) && shared_plan_.tell(planned); })) return;
    }
  }

  /// Learns what is to be read, step by step from `first` on.
  void hear(const std::stop_token& stop, uint64_t first) {
    for (uint64_t step = first; step < order_.end(); ++step) {
      std::optional<PlannedStep> planned;
      const auto heard = [&] { return (planned = shared_plan_.hear(options_.rank)).has_value(); };
      if (!poll(stop, heard)) return;
      publish(std::move(*planned));
    }
  }

  /// Waits for what a rank of another process does, which cannot notify this one. False: stopped.
  template <typename IsDone>
  static bool poll(const std::stop_token& stop, IsDone is_done) {
    for (std::chrono::microseconds pause = 50us; !is_done();
         pause = std::min(2 * pause, kLongest)) {
      if (stop.stop_requested()) return false;
      std::this_thread::sleep_for(pause);
    }
    return true;
  }

  /// Reads one chunk after the other.
  void read(const std::stop_token& stop) {
    while (const std::optional<ChunkLoad> load = next_load(stop)) {
      if (load->number == kOfPart) {
        part_->get(load->chunk, {}, stop);
      } else {
        fetch_.carry_out(*load, stop);
      }
    }
  }

  /// Tells the plan of all epochs up to this one, but of the node's part.
  void know_until(uint64_t epoch, ChunkPlan& plan, std::deque<std::vector<uint32_t>>& of_part) {
    const uint64_t per_epoch = order_.steps_per_epoch();
    const uint64_t last = std::min(epoch + 1, order_.num_epochs);
    while (plan.known_steps() < last * per_epoch) {
      auto steps = order_.chunks_of(plan.known_steps() / per_epoch);
      steps.erase(steps.begin(), steps.begin() + ptrdiff_t(plan.known_steps() % per_epoch));
      for (std::vector<uint32_t>& step : steps) of_part.push_back(take_part_of(step));
      plan.append(std::move(steps));
    }
  }

  /// What the node keeps for all nodes needs no copy on its disk.
  std::vector<bool> kept_for_all() const {
    std::vector<bool> kept;
    for (uint32_t chunk = 0; part_ != nullptr && chunk < data_.num_chunks(); ++chunk) {
      kept.push_back(part_->keeps(chunk));
    }
    return kept;
  }

  /// What of `step` is to be found in the node's part, and not in slots.
  std::vector<uint32_t> take_part_of(std::vector<uint32_t>& step) const {
    if (part_ == nullptr) return {};
    const auto begin = std::stable_partition(
        step.begin(), step.end(), [&](uint32_t chunk) { return !part_->keeps_in_memory(chunk); });
    std::vector<uint32_t> taken(begin, step.end());
    step.erase(begin, step.end());
    return taken;
  }

  bool has_room(uint64_t step) const {
    const uint64_t farthest = memory_.farthest_step();
    return step < farthest || step - farthest < kStepsAhead;
  }

  /// With this rank's share of what the step needs.
  void publish(PlannedStep planned) {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < planned.of_part.size(); ++i) {
      if (!is_ours(i) || part_->has(planned.of_part[i])) continue;
      ChunkLoad& load = to_read_.emplace_back();
      load.number = kOfPart;
      load.chunk = planned.of_part[i];
    }
    for (const ChunkLoad& load : planned.chunks.loads) {
      if (is_ours(load.number)) to_read_.push_back(load);
    }
    planned_.push_back({planned.chunks.step, std::move(planned.chunks.places)});
    forget();
    changed_.notify_all();
  }

  bool is_ours(uint64_t number) const {
    return number % uint64_t(options_.shape.num_ranks) == uint64_t(options_.rank);
  }

  /// What this rank does not look at any more.
  void forget() {
    while (!planned_.empty() && planned_.front().step < next_.first()) planned_.pop_front();
  }

  /// Waits until it may begin; nothing once it is to stop.
  std::optional<ChunkLoad> next_load(const std::stop_token& stop) {
    const std::lock_guard turn(turn_);
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !to_read_.empty(); })) return std::nullopt;
    const ChunkLoad load = to_read_.front();
    to_read_.pop_front();
    lock.unlock();
    while (!stop.stop_requested()) {
      if (may_begin(load)) return load;
      std::this_thread::sleep_for(200us);
    }
    return std::nullopt;
  }

  bool may_begin(const ChunkLoad& load) const {
    return memory_.is_over(load.free_after) &&
           std::all_of(load.after.begin(), load.after.end(), [&](const EarlierLoad& earlier) {
             return memory_.has(earlier.slot, earlier.number);
           });
  }

  uint64_t next_training(uint64_t step) const {
    return options_.trains ? order_.next_training(step) : kNever;
  }

  uint64_t next_validation() {
    const std::lock_guard lock(mutex_);
    return next_.validation;
  }

  const std::vector<ChunkPlace>& wait_for_plan(uint64_t step) {
    std::unique_lock lock(mutex_);
    // A failure may be told by another process, which cannot notify this one.
    while (planned_.empty() || planned_.back().step < step) {
      check();
      changed_.wait_for(lock, 10ms);
    }
    check();
    return planned_[step - planned_.front().step].places;
  }

  void wait_for_load(const ChunkPlace& place) {
    while (!memory_.has(place.slot, place.number)) {
      check();
      std::this_thread::sleep_for(50us);
    }
  }

  void wait_for_part(uint32_t chunk) {
    while (!part_->has(chunk)) {
      check();
      std::this_thread::sleep_for(50us);
    }
  }

  void check() const {
    memory_.check();
    if (stopped_) throw Error(Errc::Unavailable, "the cache was stopped");
  }

  void set_done(uint64_t step, bool trained) {
    const std::lock_guard lock(mutex_);
    if (trained) {
      next_.training = next_training(step + 1);
    } else {
      next_.validation = order_.next_validation(step + 1, options_.rank);
    }
    forget();
    memory_.set_done(options_.rank, next_.first());
    changed_.notify_all();
  }

  void stop() {
    stopped_ = true;
    changed_.notify_all();
  }

  const ChunkedDataset& data_;
  const VisitOrder order_;
  const CacheOptions options_;
  ChunkMemory memory_;
  SharedPlan shared_plan_;
  NodePart* const part_;  // or null
  ChunkFetch fetch_;
  Visitor training_, validation_;

  std::mutex turn_;   // held by the thread that waits for the next load: they begin in order
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<Places> planned_;     // of consecutive steps
  std::deque<ChunkLoad> to_read_;  // in the order of need
  NextSteps next_;

  std::atomic<bool> stopped_ = false;
  std::vector<std::jthread> threads_;  // the last member: they end before the others do
};

ChunkCache::ChunkCache(const ChunkedDataset& data, ChunkSource& source, VisitOrder order,
                       CacheOptions options)
    : worker_(std::make_unique<Worker>(data, source, std::move(order), std::move(options))) {}

ChunkCache::~ChunkCache() = default;

void ChunkCache::start(uint64_t epoch, uint64_t step) { worker_->start(epoch, step); }

StepImages& ChunkCache::training() { return worker_->training(); }
StepImages& ChunkCache::validation() { return worker_->validation(); }
CacheTraffic ChunkCache::traffic() const { return worker_->traffic(); }

}  // namespace dlflow::runtime
