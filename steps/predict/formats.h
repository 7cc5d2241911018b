#pragma once

#include "steps/predict/prediction_file.h"

/// The formats of predictions, each in a source file of its own.
namespace dlflow::steps {

/// Lines of text: number, label, prediction and probability of each sample.
std::unique_ptr<PredictionFile> csv_file(const runtime::Model& model,
                                         std::vector<std::string> classes);

/// An array of all scores, or of the class of each pixel.
std::unique_ptr<PredictionFile> npy_file(const runtime::Model& model);

/// A netCDF file with a record per sample: its number, what is right as far as the data says it,
/// what the network gives, and its scores.
std::unique_ptr<PredictionFile> netcdf_file(const runtime::Model& model,
                                            std::vector<std::string> classes);

/// A Parquet file with the columns of the CSV file, and a list of scores per sample where these
/// are not the predictions themselves.
std::unique_ptr<PredictionFile> parquet_file(const runtime::Model& model,
                                             std::vector<std::string> classes);

}  // namespace dlflow::steps
