#pragma once

#include <vector>

#include "runtime/gpu/plugin_abi.h"
#include "runtime/nn/model.h"
#include "runtime/nn/weight_layout.h"

namespace dlflow::runtime {

/// A model as a plug-in executes it: which operation reads and writes which value, and where its
/// parameters lie. Plain data; nothing here knows of a device.
struct Program {
  std::vector<DlflowGpuValue> values;
  std::vector<DlflowGpuOperation> operations;
  const WeightLayout* layout = nullptr;

  /// Parameters from this one on have their gradients once operation i is ready; those of
  /// operations without parameters are those of the operation behind it.
  std::vector<size_t> first_parameter;

  /// Those of which a session says when they are ready, from the last to the first; none as long as
  /// nobody adds some.
  std::vector<int32_t> announced;

  bool tensor_float32 = false;  ///< products may round their factors

  /// As the plug-in is given it; points into this.
  DlflowGpuNetwork network(int64_t max_batch, size_t report_size) const;
};

/// `layout` is a plain_layout of `model` and must outlive the result.
Program make_program(const Model& model, const WeightLayout& layout);

}  // namespace dlflow::runtime
