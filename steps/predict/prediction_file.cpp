#include "steps/predict/prediction_file.h"

#include <utility>

#include "base/error.h"
#include "steps/predict/formats.h"

namespace dlflow::steps {
namespace {

void require_rows(const std::string& format, const runtime::Model& model) {
  if (model.loss == runtime::LossKind::SoftmaxCrossEntropy || has_targets(model.loss)) return;
  throw Error(Errc::InvalidInput, "with: 'format: " + format +
                                      "' is for networks with a score per class or target; write "
                                      "'format: npy' or 'format: netcdf'");
}

}  // namespace

void PredictionFile::write(runtime::FileWriter& file, size_t samples,
                           std::span<const std::string_view> parts) const {
  file.write(head(samples));
  for (const std::string_view part : parts) file.write(part);
}

std::unique_ptr<PredictionFile> prediction_file(PredictionFormat format,
                                                const runtime::Model& model,
                                                std::vector<std::string> classes) {
  switch (format) {
    case PredictionFormat::Csv:
      require_rows("csv", model);
      return csv_file(model, std::move(classes));
    case PredictionFormat::Npy:
      return npy_file(model);
    case PredictionFormat::NetCdf:
      return netcdf_file(model, std::move(classes));
    case PredictionFormat::Parquet:
      require_rows("parquet", model);
      return parquet_file(model, std::move(classes));
  }
  DLFLOW_CHECK(false);
}

}  // namespace dlflow::steps
