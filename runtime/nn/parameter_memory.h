#pragma once

#include <functional>
#include <map>
#include <memory>

#include "runtime/nn/fusion.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"

namespace dlflow::runtime {

/// Weights and gradients of one network as oneDNN memory, in whatever format each operation wants:
/// the flat buffer's own if they agree, else a copy that is converted when the buffer changes.
class ParameterMemory {
 public:
  /// `layout` may be null: then prefer() decides the formats and finish() makes a layout.
  ParameterMemory(const Model& model, const std::vector<FusedLayer>& layers,
                  std::shared_ptr<const WeightLayout> layout);

  const dnnl::engine& engine() const { return engine_; }

  /// The number of the parameter called `name`.
  size_t index(const std::string& name) const { return indices_.at(name); }

  /// Whether parameter `index` is trained: its layer is not frozen.
  bool trains(size_t index) const { return !slots_[index].parameter.frozen; }

  /// Without a layout, the flat buffers hold parameter `index` as `format`.
  void prefer(size_t index, const dnnl::memory::desc& format);

  /// The parameter of that name, which is now in plain order, for kernels of our own.
  size_t plain(const std::string& name, const dnnl::memory::dims& shape);

  /// prefer() for all of them: the plain order of each.
  void prefer_plain();

  /// Of the tensor that the flat buffers hold as parameter `index`; 0 before prefer().
  size_t num_dims(size_t index) const;

  /// How the flat buffers hold parameter `index`. After prefer().
  const dnnl::memory::desc& format(size_t index) const { return slots_[index].format; }

  /// The memory that an operation reads its weight from, or writes its gradient to. After prefer().
  dnnl::memory weight(size_t index, const dnnl::memory::desc& format);
  dnnl::memory gradient(size_t index, const dnnl::memory::desc& format);

  /// To be called once, when all operations are built.
  std::shared_ptr<const WeightLayout> finish();

  /// `weights` are those from now on, each as soon as refresh_weight() was called for it.
  void bind_weights(std::span<const float> weights);

  /// Brings weight `index` to whatever formats it is wanted in, unless that was done since
  /// bind_weights(); then `before(index)`, if given, comes first.
  void refresh_weight(dnnl::stream& stream, size_t index,
                      const std::function<void(size_t)>& before);

  /// The gradients of frozen parameters go to memory that nobody reads.
  void bind_gradients(std::span<float> gradients);

  /// The slot of a parameter in the bound buffer: for kernels of our own, which take plain vectors.
  const float* weight_slot(size_t index) const;
  float* gradient_slot(size_t index) const;

  /// An operation has written the gradient: brings it to the flat buffer if it is not there.
  void finish_gradient(dnnl::stream& stream, size_t index);

 private:
  struct Copy {
    dnnl::memory memory;
    HugeBuffer storage;
    dnnl::reorder convert;
  };
  struct Slot {
    Parameter parameter;
    dnnl::memory::desc format;
    bool has_format = false;
    bool stale = true;
    dnnl::memory weight, gradient;
    std::vector<std::unique_ptr<Copy>> weight_copies;
    std::unique_ptr<Copy> gradient_copy;
  };

  std::unique_ptr<Copy> make_copy(const dnnl::memory::desc& format) const;

  std::shared_ptr<const WeightLayout> layout_;
  dnnl::engine engine_;
  std::vector<Slot> slots_;
  std::map<std::string, size_t> indices_;
  const float* weights_ = nullptr;
  float* gradients_ = nullptr;
  HugeBuffer frozen_gradients_;
  float* frozen_slots_ = nullptr;
};

}  // namespace dlflow::runtime
