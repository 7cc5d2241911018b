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
#include "runtime/data/jpeg_samples.h"
#include "runtime/data/mix.h"
#include "runtime/data/sample_threads.h"
#include "runtime/data/shard.h"
#include "runtime/data/text_order.h"

namespace dlflow::runtime {
namespace {

/// Memory for one batch, and the batch in it.
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

/// Makes the batch of any position. Keeps only the epoch's order between batches.
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
      options_.shuffle = false;  // drawing needs no order
      sampler_.emplace(dataset, *options_.class_shares, options_.seed);
    }
    if (options_.shuffle && options_.order == nullptr) {
      options_.order = &own_order_.emplace(dataset.size(), options_.seed);
    }
    if (dataset_.has_texts() && options_.shuffle && options_.text_block > 0) {
      options_.order->arrange_by([this](std::span<uint32_t> order, uint64_t epoch) {
        group_by_length(dataset_, order, options_.text_block, options_.seed, epoch);
      });
    }
    scratch_.resize(std::max<size_t>(options_.threads, 1));
    if (options_.threads > 1) threads_.emplace(options_.threads - 1);
  }

  size_t steps() const { return options_.division.num_steps(); }

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
    waiting_.clear();  // left by a batch that failed
    begin(position.epoch);
    slot.batch = {slot.leaves, 0, position.epoch, position.step, 0, dataset_.has_text_classes()};
    for (size_t i = 0; i < options_.own_leaves; ++i) {
      const Share share = options_.division.leaf(position.step, options_.first_leaf + i);
      float* const images = slot.images.get() + i * leaf_stride();
      const size_t first = i * options_.division.largest_leaf(), row = num_targets();
      uint32_t* const labels = slot.labels.data() + first;
      uint32_t* const samples = slot.samples.data() + first;
      float* const targets = slot.targets.data() + first * row;
      for (size_t k = 0; k < share.count; ++k) {
        samples[k] = sample_at(position.epoch, share.first + k);
      }
      const size_t length = length_for({samples, share.count});
      const size_t stride = length > 0 ? length : dataset_.shape.num_values();
      for (size_t k = 0; k < share.count; ++k) {
        if (dataset_.labels.size() > 0) labels[k] = label_of(samples[k]);
        if (dataset_.num_targets > 0) {
          std::ranges::copy(dataset_.targets[samples[k]], targets + k * row);
        } else if (mixes()) {
          std::fill_n(targets + k * row, row, 0.0f);
          targets[k * row + labels[k]] = 1;
        }
        prepare({position.epoch, samples[k], checked_pixels(samples[k]), images + k * stride,
                 targets + k * row, length});
      }
      slot.leaves[i] = {{images, share.count * stride}, {labels, share.count},
                        {samples, share.count},         position.epoch,
                        {targets, share.count * row},   length};
    }
    prepare_waiting();
    for (size_t i = 0; i < options_.own_leaves && mixes(); ++i) mix_leaf(position.epoch, i, slot);
    slot.batch.global_samples = options_.division.samples_of(position.step);
    slot.batch.global_tokens = tokens_of(position, slot.batch.global_samples);
    if (position.step + 1 == steps()) end_epoch();
  }

  /// Ends the waits of fill().
  void stop() {
    if (options_.order != nullptr) options_.order->stop();
  }

 private:
  bool mixes() const { return options_.augmentation.mixes(); }

  /// The number of targets per sample.
  size_t num_targets() const {
    if (dataset_.has_masks) return dataset_.values_of_mask();
    if (dataset_.has_texts()) return 1;
    return mixes() ? options_.num_classes : dataset_.num_targets;
  }

  size_t leaf_stride() const {
    return whole_lines(options_.division.largest_leaf() * dataset_.shape.num_values());
  }

  uint32_t sample_at(uint64_t epoch, size_t place) const {
    if (sampler_) return sampler_->draw(epoch, place);
    return options_.shuffle ? order_[place] : uint32_t(place);
  }

  /// The row length in a leaf of these texts; 0 if they are no texts.
  size_t length_for(std::span<const uint32_t> samples) const {
    if (!dataset_.has_texts()) return 0;
    size_t longest = 0;
    for (const uint32_t sample : samples) longest = std::max(longest, dataset_.length_of(sample));
    return padded_length(longest, dataset_.shape.width);
  }

  /// The tokens of all texts in a step of `samples` samples, over all ranks.
  size_t tokens_of(Position position, size_t samples) const {
    if (!dataset_.has_texts()) return 0;
    size_t tokens = 0;
    for (size_t i = 0; i < samples; ++i) {
      const size_t place = position.step * options_.division.global_batch + i;
      tokens += dataset_.length_of(sample_at(position.epoch, place));
    }
    return tokens;
  }

  uint32_t label_of(uint32_t sample) const {
    const uint32_t label = dataset_.labels[sample];
    if (label < dataset_.num_classes) return label;
    throw Error(Errc::Corrupt,  // labels were checked when the data was opened
                "the data was changed while it was read: sample " + std::to_string(sample) +
                    " has label " + std::to_string(label));
  }

  /// A sample to write to a batch.
  struct Task {
    uint64_t epoch = 0;
    uint32_t sample = 0;
    const void* pixels = nullptr;  ///< or its JPEG file
    float* image = nullptr;
    float* mask = nullptr;  ///< if samples have one; for a text, its number of tokens
    size_t length = 0;      ///< length of a text's row
  };

  /// Memory that a thread reuses for each sample.
  struct Scratch {
    std::vector<std::byte> changed;  // one image
    JpegSamples jpeg;
    std::vector<uint8_t> decoded;
  };

  /// One thread checks all images, whichever thread prepares them.
  const void* checked_pixels(uint32_t sample) {
    const void* const image = std::visit(
        [&](const auto& pixels) -> const void* { return pixels[sample].data(); }, dataset_.pixels);
    if (options_.images != nullptr) options_.images->check(image);
    return image;
  }

  void prepare(const Task& task) {
    if (threads_) {
      waiting_.push_back(task);
    } else {
      write_sample(task, scratch_[0]);
    }
  }

  void prepare_waiting() {
    if (!threads_) return;
    threads_->run(waiting_.size(), [this](size_t item, size_t thread) {
      write_sample(waiting_[item], scratch_[thread]);
    });
    waiting_.clear();
  }

  void mix_leaf(uint64_t epoch, size_t i, Slot& slot) {
    const size_t first = i * options_.division.largest_leaf(), row = num_targets();
    const size_t count = slot.leaves[i].count();
    mix(options_.augmentation, dataset_.shape, options_.seed, epoch,
        {{slot.samples.data() + first, count},
         slot.images.get() + i * leaf_stride(),
         {slot.targets.data() + first * row, count * row}});
  }

  void write_sample(const Task& task, Scratch& scratch) const {
    if (dataset_.has_texts()) return write_text(task);
    if (const auto* pictures = std::get_if<EncodedImages>(&dataset_.pixels)) {
      return write_picture(task, *pictures, scratch);
    }
    const ImageChange change =
        draw_change(options_.augmentation, dataset_.shape, options_.seed, task.epoch, task.sample);
    if (std::holds_alternative<PixelRows<float>>(dataset_.pixels)) {
      write_row(task, static_cast<const float*>(task.pixels), change, scratch);
    } else {
      write_row(task, static_cast<const uint8_t*>(task.pixels), change, scratch);
    }
  }

  template <typename T>
  void write_row(const Task& task, const T* row, const ImageChange& change,
                 Scratch& scratch) const {
    write_image(row, change, scratch, task.image);
    if (!dataset_.has_masks) return;
    change_mask(change, dataset_.shape, row + dataset_.shape.num_values(), task.mask);
    require_classes(task.sample, {task.mask, dataset_.values_of_mask()});
  }

  void write_text(const Task& task) const {
    const auto* const text = static_cast<const uint8_t*>(task.pixels);
    const size_t count = dataset_.length_of(task.sample);
    DLFLOW_CHECK(count <= task.length);
    for (size_t i = 0; i < count; ++i) {
      task.image[i] = float(token_at(text + i * dataset_.token_bytes, dataset_.token_bytes));
    }
    std::fill(task.image + count, task.image + task.length, 0.0f);
    *task.mask = float(count);
  }

  /// Crop and mirror are part of the resizing.
  void write_picture(const Task& task, const EncodedImages& pictures, Scratch& scratch) const {
    const std::string name = pictures.name_of(task.sample);
    JpegReader picture({static_cast<const char*>(task.pixels), pictures[task.sample].size()}, name);
    const ImageShape& shape = dataset_.shape;
    ImageChange change = draw_change(options_.augmentation, shape, picture.shape(), options_.seed,
                                     task.epoch, task.sample);
    const PictureView view = change.crop.height > 0
                                 ? view_of(change.crop, shape)
                                 : view_of(picture.shape(), dataset_.reshaping, shape, name);
    scratch.decoded.resize(shape.num_values());
    scratch.jpeg.write(picture, view, shape.channels, change.flip, scratch.decoded.data());
    change.crop = {};
    change.flip = false;
    write_image(scratch.decoded.data(), change, scratch, task.image);
  }

  void require_classes(uint32_t sample, std::span<const float> mask) const {
    for (const float value : mask) {
      if (is_class(value, dataset_.num_classes)) continue;
      throw Error(Errc::Corrupt,
                  fmt::format("sample {} has {} in its mask, but the data has {} classes; pack it "
                              "again: dlflow data pack",
                              sample, value, dataset_.num_classes));
    }
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
  void write_image(const T* pixels, const ImageChange& change, Scratch& scratch,
                   float* output) const {
    if (change == ImageChange{}) {
      return normalize(options_.normalization, dataset_.shape, pixels, output);
    }
    scratch.changed.resize(dataset_.shape.num_values() * sizeof(T));
    T* const changed = reinterpret_cast<T*>(scratch.changed.data());
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
  std::vector<Scratch> scratch_;  // one per thread
  std::vector<Task> waiting_;     // tasks for the threads
  std::optional<SampleThreads> threads_;
};

}  // namespace

/// A ring of slots. The caller holds the oldest, the next `filled_` are ready, and the thread fills
/// those after them. Without a thread there is one slot, which the caller fills.
class Loader::Worker {
 public:
  Worker(const Dataset& dataset, const LoaderOptions& options)
      : maker_(dataset, options), has_thread_(options.prefetch > 0) {
    for (size_t i = 0; i < options.prefetch + 1; ++i) slots_.push_back(maker_.make_slot());
  }

  ~Worker() {
    if (has_thread_) maker_.stop();
  }

  size_t steps() const { return maker_.steps(); }

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

  bool is_ready() {
    const std::scoped_lock lock(mutex_);
    return filled_ > 0;
  }

 private:
  /// Returns the position to make next, and advances.
  Position advance() {
    const Position position = to_make_;
    to_make_ = position.step + 1 < steps() ? Position{position.epoch, position.step + 1}
                                           : Position{position.epoch + 1, 0};
    return position;
  }

  /// The caller makes the first batch, since it would have to wait for it anyway.
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

  BatchMaker maker_;  // used by the thread while it runs; so is to_make_
  Position to_make_;
  std::vector<Slot> slots_;
  bool has_thread_;

  std::mutex mutex_;  // guards the following members
  std::condition_variable_any changed_;
  size_t current_ = 0;  // the slot that the caller holds
  size_t filled_ = 0;
  std::exception_ptr error_;

  std::jthread thread_;  // last member, so that it ends first
};

size_t loader_threads(std::optional<size_t> asked, const Dataset& dataset, int cores) {
  if (asked) return *asked;
  return dataset.is_encoded() && !dataset.has_texts() ? size_t(std::max(cores, 1)) : 1;
}

Loader::Loader(const Dataset& dataset, const LoaderOptions& options)
    : worker_(std::make_unique<Worker>(dataset, options)) {}

Loader::~Loader() = default;

size_t Loader::steps_per_epoch() const { return worker_->steps(); }

void Loader::seek(uint64_t epoch, uint64_t step) {
  if (step > steps_per_epoch()) {
    throw Error(Errc::InvalidInput, "step " + std::to_string(step) + " of an epoch that has " +
                                        std::to_string(steps_per_epoch()) + " steps");
  }
  worker_->seek(step == steps_per_epoch() ? Position{epoch + 1, 0} : Position{epoch, step});
}

LocalBatch Loader::next() { return worker_->next(); }

bool Loader::is_ready() const { return worker_->is_ready(); }

}  // namespace dlflow::runtime
