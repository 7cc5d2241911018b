#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/file_writer.h"
#include "runtime/nn/model.h"
#include "runtime/train/prediction.h"

namespace dlflow::steps {

enum class PredictionFormat {
  Csv,  ///< a line per sample: its number, label, most probable class and that one's
        ///< probability; or its targets, and what the network gives for them
  Npy,  ///< the scores, (samples, scores of a sample); or the class of each pixel, (samples, H, W)
};

/// The file that a `predict` step writes. Each rank makes rows of its samples; one joins them.
class PredictionFile {
 public:
  virtual ~PredictionFile() = default;

  /// "predictions.csv"
  virtual std::string name() const = 0;

  /// What a rank keeps of `prediction` for write().
  virtual std::string rows(const runtime::Prediction& prediction) const = 0;

  /// Writes the file of `samples`, whose rows are in `parts`, one part after the other.
  void write(runtime::FileWriter& file, size_t samples,
             std::span<const std::string_view> parts) const;

 private:
  /// The bytes before the rows.
  virtual std::string head(size_t samples) const = 0;
};

/// `classes` are the names of the classes, or none. Throws Error{InvalidInput} if the format has no
/// place for what `model` gives.
std::unique_ptr<PredictionFile> prediction_file(PredictionFormat format,
                                                const runtime::Model& model,
                                                std::vector<std::string> classes);

}  // namespace dlflow::steps
