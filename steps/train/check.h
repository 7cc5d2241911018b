#pragma once

#include "runtime/nn/model.h"

namespace dlflow::steps {

/// Prints the layers of `model` with shapes, parameters and multiply-adds, and what a rank needs
/// in memory to train it: `dlflow-train --check`.
void print_model(const runtime::Model& model);

}  // namespace dlflow::steps
