#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/file_writer.h"
#include "runtime/nn/model.h"
#include "runtime/train/trained_network.h"
#include "steps/predict/new_samples.h"

namespace dlflow::steps {

enum class PredictionFormat {
  Csv,  ///< a line per sample: its number, label, most probable class and the probability of that
        ///< class; or its targets and predictions
  Npy,  ///< the scores, (samples, scores per sample); or the class of each pixel, (samples, H, W)
};

/// The file that a `predict` step writes. Each rank makes the rows of its samples; one joins them.
class PredictionFile {
 public:
  virtual ~PredictionFile() = default;

  /// "predictions.csv"
  virtual std::string name() const = 0;

  /// The rows of `prediction`, for write().
  virtual std::string rows(const runtime::Prediction& prediction) const = 0;

  /// Writes the file for `samples` samples from the rows in `parts`, in this order.
  void write(runtime::FileWriter& file, size_t samples,
             std::span<const std::string_view> parts) const;

 private:
  /// The bytes before the rows.
  virtual std::string head(size_t samples) const = 0;
};

/// `classes` are the names of the classes, if any; `samples`, if not null, are new ones, which have
/// names and no answers. Throws Error{InvalidInput} if the format cannot hold the predictions of
/// `model`. `model` and `samples` must outlive the result.
std::unique_ptr<PredictionFile> prediction_file(PredictionFormat format,
                                                const runtime::Model& model,
                                                std::vector<std::string> classes,
                                                const NewSamples* samples = nullptr);

}  // namespace dlflow::steps
