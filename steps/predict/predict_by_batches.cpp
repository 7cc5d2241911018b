#include "steps/predict/predict_by_batches.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "runtime/train/evaluation.h"

namespace dlflow::steps {

void predict_by_batches(const runtime::Communicator& comm, runtime::TrainedNetwork& network,
                        NewSamples& samples, size_t batch, runtime::IndexRange batches,
                        const std::function<void(const runtime::Prediction&)>& take) {
  for (size_t i = batches.first; i < batches.first + batches.count; ++i) {
    const size_t first = i * batch, count = std::min(batch, samples.names.size() - first);
    runtime::Dataset dataset = samples.read({first, count}, samples.faults);
    runtime::require_fitting(network.model, dataset, "the data", runtime::Purpose::Predict);
    runtime::predict(comm, network, {dataset, network.normalization, batch}, {0, 1},
                     [&](runtime::Prediction prediction) {
                       prediction.first = first;
                       take(prediction);
                     });
  }
}

void report_faults(const NewSamples& samples, PredictionFormat format) {
  constexpr size_t kMostNamed = 20;
  std::vector<std::string> lines;
  for (const std::string& fault : samples.faults) {
    if (!fault.empty() && lines.size() < kMostNamed) lines.push_back(fault);
  }
  if (lines.empty()) return;
  if (const size_t all = samples.num_left_out(); all > lines.size()) {
    lines.push_back("and " + std::to_string(all - lines.size()) + " more");
  }
  if (format == PredictionFormat::Npy) {
    throw Error(Errc::InvalidInput, join(lines, "\n") +
                                        "\nthe rows of an .npy file have no names, so none is left "
                                        "out; remove these files, or write a CSV file");
  }
  for (const std::string& line : lines) {
    std::fprintf(stderr, "warning: left out: %s\n", escaped(line).c_str());
  }
}

}  // namespace dlflow::steps
