#include "runtime/data/loader.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/aligned_floats.h"
#include "base/error.h"
#include "runtime/data/mix.h"
#include "runtime/data/shard.h"

namespace dlflow::runtime {
namespace {

/// Memory for one batch and what lies in it.
struct Slot {
  AlignedFloats images;  // each leaf starts at a cache line
  std::vector<uint32_t> labels, samples;
  std::vector<float> targets;
  std::vector<Leaf> leaves;
  LocalBatch batch;
};

struct Position {
  uint64_t epoch = 0, step = 0;
};

/// Makes the batch of any position; all that is kept between batches is the epoch's order.
class BatchMaker {
 public:
  BatchMaker(const Dataset& dataset, LoaderOptions options)
      : dataset_(dataset), options_(std::move(options)) {
    DLFLOW_CHECK(options_.normalization.scale.size() == dataset.shape.channels);
    DLFLOW_CHECK(options_.normalization.shift.size() == dataset.shape.channels);
    if (options_.division.global_batch < 1) {
      throw Error(Errc::InvalidInput, "a batch needs at least one sample");
    }
    options_.division.num_samples = dataset.size();
    if (options_.class_shares) {
      options_.shuffle = false;  // no order is needed
      sampler_.emplace(dataset, *options_.class_shares, options_.seed);
    }
    if (options_.shuffle && options_.order == nullptr) {
      options_.order = &own_order_.emplace(dataset.size(), options_.seed);
    }
  }

  size_t steps() const { return options_.division.num_steps(); }
  StepImages* images() const { return options_.images; }

  Slot make_slot() const {
    const size_t count = options_.own_leaves * options_.division.largest_leaf();
    return {make_aligned_floats(options_.own_leaves * leaf_stride()),
            std::vector<uint32_t>(count),
            std::vector<uint32_t>(count),
            std::vector<float>(count * num_targets()),
            std::vector<Leaf>(options_.own_leaves),
            {}};
  }

  void fill(Position position, Slot& slot) {
    begin(position.epoch);
    if (options_.images != nullptr) options_.images->begin(position.epoch, position.step);
    slot.batch = {slot.leaves, 0, position.epoch, position.step};
    for (size_t i = 0; i < options_.own_leaves; ++i) {
      const Share share = options_.division.leaf(position.step, options_.first_leaf + i);
      float* const images = slot.images.get() + i * leaf_stride();
      const size_t first = i * options_.division.largest_leaf(), row = num_targets();
      uint32_t* const labels = slot.labels.data() + first;
      uint32_t* const samples = slot.samples.data() + first;
      float* const targets = slot.targets.data() + first * row;
      for (size_t k = 0; k < share.count; ++k) {
        samples[k] = sample_at(position.epoch, share.first + k);
        if (dataset_.num_targets > 0) {
          std::ranges::copy(dataset_.targets[samples[k]], targets + k * row);
        } else {
          labels[k] = label_of(samples[k]);
        }
        write_sample(position.epoch, samples[k], images + k * dataset_.shape.num_values(),
                     targets + k * row);
      }
      if (mixes()) {
        mix(options_.augmentation, dataset_.shape, options_.seed, position.epoch,
            {{samples, share.count}, {labels, share.count}, images, {targets, share.count * row}});
      }
      slot.leaves[i] = {{images, share.count * dataset_.shape.num_values()},
                        {labels, share.count},
                        {samples, share.count},
                        position.epoch,
                        {targets, share.count * row}};
    }
    slot.batch.global_samples = options_.division.samples_of(position.step);
    if (options_.images != nullptr) options_.images->end();
    if (position.step + 1 == steps()) end_epoch();
  }

  /// What fill() waits for is not waited for any more.
  void stop() {
    if (options_.order != nullptr) options_.order->stop();
    if (options_.images != nullptr) options_.images->stop();
  }

 private:
  bool mixes() const { return options_.augmentation.mixes(); }

  /// Of each sample.
  size_t num_targets() const {
    if (dataset_.has_masks) return dataset_.values_of_mask();
    return mixes() ? options_.num_classes : dataset_.num_targets;
  }

  size_t leaf_stride() const {
    return whole_lines(options_.division.largest_leaf() * dataset_.shape.num_values());
  }

  uint32_t sample_at(uint64_t epoch, size_t place) const {
    if (sampler_) return sampler_->draw(epoch, place);
    return options_.shuffle ? order_[place] : uint32_t(place);
  }

  uint32_t label_of(uint32_t sample) const {
    const uint32_t label = dataset_.labels[sample];
    if (label < dataset_.num_classes) return label;
    throw Error(Errc::Corrupt,  // it was not so when the data was opened
                "the data was changed while it was read: sample " + std::to_string(sample) +
                    " has label " + std::to_string(label));
  }

  /// \param mask  of it, where samples have one
  void write_sample(uint64_t epoch, uint32_t sample, float* image, float* mask) {
    const ImageChange change =
        draw_change(options_.augmentation, dataset_.shape, options_.seed, epoch, sample);
    const auto write = [&](const auto& pixels) {
      const auto* const row = find(pixels[sample].data());
      write_image(row, change, image);
      if (!dataset_.has_masks) return;
      change_mask(change, dataset_.shape, row + dataset_.shape.num_values(), mask);
      require_classes(sample, {mask, dataset_.values_of_mask()});
    };
    std::visit(write, dataset_.pixels);
  }

  void require_classes(uint32_t sample, std::span<const float> mask) const {
    for (const float value : mask) {
      if (is_class(value, dataset_.num_classes)) continue;
      throw Error(Errc::Corrupt,
                  fmt::format("sample {} has {} in its mask, and the data has {} classes; pack it "
                              "again: dlflow data pack",
                              sample, value, dataset_.num_classes));
    }
  }

  template <typename T>
  const T* find(const T* image) {
    return options_.images == nullptr ? image : static_cast<const T*>(options_.images->find(image));
  }

  void begin(uint64_t epoch) {
    if (!options_.shuffle || epoch_ == epoch) return;
    order_ = options_.order->enter(epoch, options_.images ? &options_.images->arrivals() : nullptr);
    epoch_ = epoch;
  }

  void end_epoch() {
    if (options_.shuffle) options_.order->leave();
    epoch_.reset();
  }

  template <typename T>
  void write_image(const T* pixels, const ImageChange& change, float* output) {
    if (change == ImageChange{}) {
      return normalize(options_.normalization, dataset_.shape, pixels, output);
    }
    scratch_.resize(dataset_.shape.num_values() * sizeof(T));
    T* const changed = reinterpret_cast<T*>(scratch_.data());
    apply_change(change, dataset_.shape, pixels, changed);
    normalize(options_.normalization, dataset_.shape, changed, output);
    cut_out(change.hole, dataset_.shape, output);
  }

  const Dataset& dataset_;
  LoaderOptions options_;
  std::optional<ClassSampler> sampler_;
  std::optional<EpochOrder> own_order_;
  std::span<const uint32_t> order_;  // of epoch_
  std::optional<uint64_t> epoch_;
  std::vector<std::byte> scratch_;  // one changed image
};

}  // namespace

/// A ring of slots: the oldest is with the caller, the next `filled_` are ready, and the thread
/// fills what follows. Without a thread there is one slot, filled by the caller.
class Loader::Worker {
 public:
  Worker(const Dataset& dataset, const LoaderOptions& options)
      : maker_(dataset, options), has_thread_(options.prefetch > 0) {
    for (size_t i = 0; i < options.prefetch + 1; ++i) slots_.push_back(maker_.make_slot());
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ~Worker() {
    if (has_thread_) maker_.stop();
  }

  size_t steps() const { return maker_.steps(); }
  StepImages* images() const { return maker_.images(); }

  void seek(Position position) {
    thread_ = {};  // stops and joins
    to_make_ = position;
    current_ = 0;
    filled_ = 0;
  }

  LocalBatch next() {
    if (!has_thread_) {
      maker_.fill(advance(), slots_[0]);
      return slots_[0].batch;
    }
    if (!thread_.joinable()) return start();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return filled_ > 0 || error_; });
    if (filled_ == 0) std::rethrow_exception(error_);
    --filled_;
    current_ = (current_ + 1) % slots_.size();
    changed_.notify_all();
    return slots_[current_].batch;
  }

 private:
  /// The position to make next; moves on to the one after it.
  Position advance() {
    const Position position = to_make_;
    to_make_ = position.step + 1 < steps() ? Position{position.epoch, position.step + 1}
                                           : Position{position.epoch + 1, 0};
    return position;
  }

  /// The first batch is made by the caller, who would have to wait for it anyway.
  LocalBatch start() {
    maker_.fill(advance(), slots_[0]);
    error_ = nullptr;
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    return slots_[0].batch;
  }

  void run(const std::stop_token& stop) {
    try {
      std::unique_lock lock(mutex_);
      while (changed_.wait(lock, stop, [&] { return filled_ + 1 < slots_.size(); })) {
        Slot& slot = slots_[(current_ + 1 + filled_) % slots_.size()];
        lock.unlock();
        maker_.fill(advance(), slot);
        lock.lock();
        ++filled_;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  BatchMaker maker_;  // of the thread while it runs; so is to_make_
  Position to_make_;
  std::vector<Slot> slots_;
  bool has_thread_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  size_t current_ = 0;  // the slot that is with the caller
  size_t filled_ = 0;
  std::exception_ptr error_;

  std::jthread thread_;  // the last member: it ends before the others do
};

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : worker_(std::make_unique<Worker>(dataset, options)) {}

Loader::~Loader() = default;

size_t Loader::steps_per_epoch() const { return worker_->steps(); }
StepImages* Loader::images() const { return worker_->images(); }

void Loader::seek(uint64_t epoch, uint64_t step) {
  if (step > steps_per_epoch()) {
    throw Error(Errc::InvalidInput, "step " + std::to_string(step) + " of an epoch that has " +
                                        std::to_string(steps_per_epoch()) + " steps");
  }
  worker_->seek(step == steps_per_epoch() ? Position{epoch + 1, 0} : Position{epoch, step});
}

LocalBatch Loader::next() { return worker_->next(); }

}  // namespace dlflow::runtime
