#pragma once

#include <functional>

#include "runtime/comm/communicator.h"
#include "runtime/data/dataset.h"
#include "runtime/data/normalization.h"
#include "runtime/train/network_set.h"

namespace dlflow::runtime {

/// Over all samples of a dataset.
struct Evaluation {
  double loss = 0;      ///< mean
  double accuracy = 0;  ///< share of right answers
};

/// Throws Error{InvalidInput} unless `dataset`'s pictures are what `model` takes and its labels are
/// among the model's classes; `name` is the dataset's, for the message.
void require_fitting(const Model& model, const Dataset& dataset, const std::string& name);

/// Measures `weights` on `dataset`, whose samples the ranks share out, `batch` at a time. Every
/// rank gets the result. Collective. `progress(done, total)` is called after each batch.
Evaluation evaluate(Communicator& comm, NetworkSet& networks, std::span<const float> weights,
                    const Dataset& dataset, const Normalization& normalization, size_t batch,
                    const std::function<void(size_t, size_t)>& progress = {});

}  // namespace dlflow::runtime
