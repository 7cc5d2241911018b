#pragma once

#include <string>
#include <vector>

#include "engine/init/init.h"
#include "runtime/data/dataset.h"

/// Workflows that train a network on a data set.
namespace dlflow {

/// Mean and deviation of a number to learn.
struct TargetScale {
  float mean = 0, deviation = 1;
};

/// A data set, as a network sees it.
struct TrainingData {
  runtime::ImageShape shape;
  size_t samples = 0;
  size_t classes = 0;                     ///< or
  std::vector<TargetScale> targets = {};  ///< of each number to learn
  bool has_test = false;

  bool is_table() const { return shape.height == 1 && shape.width == 1; }
};

/// What `rows`, of a training split, are; of numbers to learn their scale. It says nothing of a
/// test.
TrainingData training_data_of(const runtime::Dataset& rows);

/// The model file: for pictures convolutions with batch normalisation, else linear layers. Behind
/// those for numbers a layer turns scores of deviation 1 into numbers of the targets' scale.
std::string model_text(const std::string& name, const TrainingData& data);

/// The weights of that layer, as a safetensors file.
std::string scale_file(const std::vector<TargetScale>& targets);

/// The share of samples that a step holds back for the test: none of a few samples.
inline std::string test_share_option(size_t samples) {
  return samples < 50 ? "" : ", --test-share, \"0.2\"";
}

/// A step `data` that packs `source` by `dlflow data pack`. \param options  ", --target, price"
std::string packing_step(const std::string& source, const std::string& options);

/// Workflow, model and, for numbers, the weights of the scale. \param first_step  packing_step();
/// or empty: the data set is there. \param place  of the data, as YAML.
std::vector<InitFile> training_files(const InitRequest& request, const TrainingData& data,
                                     const std::string& first_step, const std::string& place);

/// The place of the data that packing_step() packs.
inline constexpr const char* kPackedData = "\"${{ steps.data.outputs.data }}\"";

}  // namespace dlflow
