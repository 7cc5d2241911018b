#pragma once

#include "steps/predict/prediction_file.h"

namespace dlflow::steps {

std::unique_ptr<PredictionFile> npy_file(const runtime::Model& model);

}  // namespace dlflow::steps
