#include "runtime/data/chunk_cache.h"

#include <sys/resource.h>
#include <unistd.h>

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
#include "base/units.h"
#include "runtime/data/chunk_fetch.h"
#include "runtime/data/chunk_plan.h"

namespace dlflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kStepsAhead = 64;
constexpr int kNice = 10;  // a tenth of a core that others want, too

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

size_t memory_slots_within(const CacheBudget& budget, const ChunkedDataset& data,
                           const VisitOrder& order) {
  const size_t fit = budget.memory_bytes / data.chunk_bytes();
  const size_t needed = order.most_chunks_per_step();
  if (fit < needed) {
    throw Error(Errc::InvalidInput,
                "with: 'cache.memory' of " + format_size(budget.memory_bytes) +
                    " is too small: a step of all ranks of a node looks at up to " +
                    std::to_string(needed) + " parts of the data of " +
                    format_size(data.chunk_bytes()) + "; give it at least " +
                    format_size(needed * data.chunk_bytes()));
  }
  return std::min(fit, data.chunks().size());
}

class ChunkCache::Worker {
 public:
  Worker(const ChunkedDataset& data, ChunkSource& source, VisitOrder order, CacheOptions options)
      : data_(data),
        order_(std::move(order)),
        options_(std::move(options)),
        memory_(options_.memory, options_.shape),
        fetch_(data, source, memory_, options_.scratch_file, options_.warn),
        training_(*this, true),
        validation_(*this, false) {}

  void start(uint64_t epoch, uint64_t step) {
    const bool is_over = step == order_.train_steps() && step > 0;
    const uint64_t first =
        is_over ? (epoch + 1) * order_.steps_per_epoch() : epoch * order_.steps_per_epoch() + step;
    const uint64_t lookahead =
        lookahead_for(options_.shape.num_slots, order_.most_chunks_per_step());
    plan_.emplace(data_.chunks().size(),
                  ChunkCapacity{options_.shape.num_slots, options_.scratch_slots, lookahead},
                  first);
    next_ = {next_training(first), order_.next_validation(first, options_.rank)};
    memory_.set_done(options_.rank, next_.first());
    thread_ = std::jthread([this, first](const std::stop_token& stop) { run(stop, first); });
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
      const auto found = std::lower_bound(
          places_->begin(), places_->end(), place.chunk,
          [](const ChunkPlace& chunk, uint32_t wanted) { return chunk.chunk < wanted; });
      DLFLOW_CHECK(found != places_->end() && found->chunk == place.chunk);
      worker_.wait_for_load(*found);
      return worker_.memory_.slot(found->slot).data() + place.offset;
    }

    void end() override { worker_.set_done(step_, trains_); }
    void stop() override { worker_.stop(); }

   private:
    Worker& worker_;
    bool trains_;
    uint64_t step_ = 0;
    const std::vector<ChunkPlace>* places_ = nullptr;
  };

  /// The reader.
  void run(const std::stop_token& stop, uint64_t first) {
    ::setpriority(PRIO_PROCESS, id_t(::gettid()), kNice);
    try {
      for (uint64_t step = first; step < order_.end(); ++step) {
        know_until(step / order_.steps_per_epoch() + 1);
        if (!wait_for_room(stop, step)) return;
        const PlannedStep planned = plan_->next();
        publish(planned);
        for (const ChunkLoad& load : planned.loads) {
          const bool ours =
              load.number % uint64_t(options_.shape.num_ranks) == uint64_t(options_.rank);
          if (ours && !carry_out(stop, load)) return;
        }
      }
    } catch (const Error& error) {
      memory_.fail(error);
    } catch (const std::exception& error) {
      memory_.fail(Error(Errc::Unavailable, error.what()));
    }
    changed_.notify_all();
  }

  /// Tells the plan of all epochs up to this one.
  void know_until(uint64_t epoch) {
    const uint64_t per_epoch = order_.steps_per_epoch();
    const uint64_t last = std::min(epoch + 1, order_.num_epochs);
    while (plan_->known_steps() < last * per_epoch) {
      const auto steps = order_.chunks_of(plan_->known_steps() / per_epoch);
      plan_->append(std::span(steps).subspan(plan_->known_steps() % per_epoch));
    }
  }

  bool wait_for_room(const std::stop_token& stop, uint64_t step) {
    std::unique_lock lock(mutex_);
    return changed_.wait(
        lock, stop, [&] { return step < next_.first() || step - next_.first() < kStepsAhead; });
  }

  void publish(const PlannedStep& planned) {
    const std::lock_guard lock(mutex_);
    planned_.push_back({planned.step, planned.places});
    forget();
    changed_.notify_all();
  }

  /// What this rank does not look at any more.
  void forget() {
    while (!planned_.empty() && planned_.front().step < next_.first()) planned_.pop_front();
  }

  bool carry_out(const std::stop_token& stop, const ChunkLoad& load) {
    const auto may_begin = [&] {
      return memory_.is_over(load.free_after) &&
             std::all_of(load.after.begin(), load.after.end(), [&](const EarlierLoad& earlier) {
               return memory_.has(earlier.slot, earlier.number);
             });
    };
    while (!may_begin()) {
      if (stop.stop_requested()) return false;
      std::this_thread::sleep_for(200us);
    }
    if (stop.stop_requested()) return false;
    fetch_.carry_out(load);
    return true;
  }

  uint64_t next_training(uint64_t step) const {
    return options_.trains ? order_.next_training(step) : std::numeric_limits<uint64_t>::max();
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
  ChunkFetch fetch_;               // of the reader
  std::optional<ChunkPlan> plan_;  // of the reader
  Visitor training_, validation_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::deque<Places> planned_;  // of consecutive steps
  NextSteps next_;

  std::atomic<bool> stopped_ = false;
  std::jthread thread_;  // the last member: it ends before the others do
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
