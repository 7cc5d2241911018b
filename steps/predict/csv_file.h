#pragma once

#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

std::unique_ptr<PredictionFile> csv_file(const runtime::Model& model,
                                         std::vector<std::string> classes);

}  // namespace dlflow::steps
