#pragma once

#include <vector>

#include "runtime/gpu/plugin_abi.h"
#include "runtime/nn/model.h"
#include "runtime/nn/weight_layout.h"

namespace dlflow::runtime {

/// A model as executed by a plug-in: the values that each operation reads and writes, and the
/// location of its parameters. Plain data, independent of devices.
struct Program {
  std::vector<DlflowGpuValue> values;
  std::vector<DlflowGpuOperation> operations;
  const WeightLayout* layout = nullptr;

  /// Parameters from this one on have their gradients once operation i is ready. Operations without
  /// parameters have the value of the next operation.
  std::vector<size_t> first_parameter;

  /// Operations that a session announces as ready, from the last to the first; empty unless set.
  std::vector<int32_t> announced;

  bool tensor_float32 = false;  ///< products may round factors to TF32

  /// The argument for the plug-in; points into this.
  DlflowGpuNetwork network(int64_t max_batch, size_t report_size) const;
};

/// `layout` is a plain_layout of `model` and must outlive the result.
Program make_program(const Model& model, const WeightLayout& layout);

}  // namespace dlflow::runtime
