#pragma once

#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

/// A Parquet file with the columns of the CSV file, and a list of scores per sample where these
/// are not the predictions themselves.
std::unique_ptr<PredictionFile> parquet_file(const runtime::Model& model,
                                             std::vector<std::string> classes);

}  // namespace dlflow::steps
