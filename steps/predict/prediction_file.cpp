#include "steps/predict/prediction_file.h"

#include <utility>

#include "base/error.h"
#include "steps/predict/formats.h"

namespace dlflow::steps {

void PredictionFile::write(runtime::FileWriter& file, size_t samples,
                           std::span<const std::string_view> parts) const {
  file.write(head(samples));
  for (const std::string_view part : parts) file.write(part);
}

std::unique_ptr<PredictionFile> prediction_file(PredictionFormat format,
                                                const runtime::Model& model,
                                                std::vector<std::string> classes) {
  if (format == PredictionFormat::Npy) return npy_file(model);
  if (model.loss == runtime::LossKind::SoftmaxCrossEntropy || has_targets(model.loss)) {
    return csv_file(model, std::move(classes));
  }
  throw Error(Errc::InvalidInput,
              "with: 'format: csv' is for networks with a score per class or target; write "
              "'format: npy'");
}

}  // namespace dlflow::steps
