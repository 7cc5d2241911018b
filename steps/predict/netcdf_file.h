#pragma once

#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

/// A netCDF file with a record per sample: its number, what is right as far as the data says it,
/// what the network gives, and its scores.
std::unique_ptr<PredictionFile> netcdf_file(const runtime::Model& model,
                                            std::vector<std::string> classes);

}  // namespace dlflow::steps
