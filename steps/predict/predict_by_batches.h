#pragma once

#include <functional>

#include "runtime/comm/communicator.h"
#include "runtime/train/prediction.h"
#include "runtime/train/trained_network.h"
#include "steps/predict/new_samples.h"
#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

/// Like runtime::predict(), for new samples, of which it holds one batch in memory.
void predict_by_batches(const runtime::Communicator& comm, runtime::TrainedNetwork& network,
                        NewSamples& samples, size_t batch, runtime::IndexRange batches,
                        const std::function<void(const runtime::Prediction&)>& take);

/// Prints a warning for each unreadable sample, up to 20, since a CSV file leaves them out. Throws
/// Error{InvalidInput} for an .npy file, whose rows have no names.
void report_faults(const NewSamples& samples, PredictionFormat format);

}  // namespace dlflow::steps
