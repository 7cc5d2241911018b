#pragma once

#include <functional>
#include <map>
#include <memory>

#include "runtime/nn/fusion.h"
#include "runtime/nn/huge_buffer.h"
#include "runtime/nn/weight_layout.h"

namespace dlflow::runtime {

/// Weights and gradients of one network as oneDNN memory, in the format that each operation needs:
/// the flat buffer itself if its format fits, else a copy that is converted when the buffer
/// changes.
class ParameterMemory {
 public:
  /// If `layout` is null, prefer() decides the formats and finish() makes a layout.
  ParameterMemory(const Model& model, const std::vector<FusedLayer>& layers,
                  std::shared_ptr<const WeightLayout> layout);

  const dnnl::engine& engine() const { return engine_; }

  /// The index of the parameter called `name`.
  size_t index(const std::string& name) const { return indices_.at(name); }

  /// Whether parameter `index` is trained, that is, its layer is not frozen.
  bool trains(size_t index) const { return !slots_[index].parameter.frozen; }

  /// Makes the flat buffers hold parameter `index` as `format`, unless a layout was given.
  void prefer(size_t index, const dnnl::memory::desc& format);

  /// Returns the index of parameter `name` and puts it in plain order, for our own kernels.
  size_t plain(const std::string& name, const dnnl::memory::dims& shape);

  /// Calls prefer() with the plain order for all parameters.
  void prefer_plain();

  /// Number of dimensions of parameter `index` in the flat buffers; 0 before prefer().
  size_t num_dims(size_t index) const;

  /// The format of parameter `index` in the flat buffers. Call after prefer().
  const dnnl::memory::desc& format(size_t index) const { return slots_[index].format; }

  /// The memory where an operation reads its weight or writes its gradient. Call after prefer().
  dnnl::memory weight(size_t index, const dnnl::memory::desc& format);
  dnnl::memory gradient(size_t index, const dnnl::memory::desc& format);

  /// Must be called once, after all operations are built.
  std::shared_ptr<const WeightLayout> finish();

  /// Uses `weights` from now on; each is valid once refresh_weight() was called for it.
  void bind_weights(std::span<const float> weights);

  /// Converts weight `index` to the formats that operations need, once after each bind_weights().
  /// Calls `before(index)`, if given, first.
  void refresh_weight(dnnl::stream& stream, size_t index,
                      const std::function<void(size_t)>& before);

  /// The gradients of frozen parameters go to a scratch buffer.
  void bind_gradients(std::span<float> gradients);

  /// The slot of a parameter in the bound buffer, for our own kernels, which take plain vectors.
  const float* weight_slot(size_t index) const;
  float* gradient_slot(size_t index) const;

  /// Called after an operation has written the gradient: copies it to the flat buffer if needed.
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
