#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/init/training.h"
#include "engine/init/workflow_text.h"
#include "runtime/import/sources.h"

/// Folders of pictures, one folder for each class.
namespace dlflow {
namespace {

constexpr uint32_t kSide = 64;

/// Whether no picture has to be resized.
bool are_small_and_equal(const runtime::ImportedSplit& pictures) {
  const runtime::ImageShape& shape = pictures.source.shape;
  if (std::max(shape.height, shape.width) > kSide) return false;
  try {
    for (size_t i = 0; i < pictures.source.size(); ++i) pictures.source.image(i);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<InitFile> init_pictures(const InitRequest& request) {
  runtime::ImportOptions options;
  runtime::ImportedSplit pictures = runtime::open_source(request.source, {}, runtime::Split::Train);
  std::string words;
  if (!are_small_and_equal(pictures)) {
    options.reshaping.shorter_side = kSide;
    options.reshaping.crop = runtime::PictureSize{kSide, kSide};
    const std::string side = "\"" + std::to_string(kSide) + "\"";
    words = ", --resize, " + side + ", --crop, " + side;
    pictures = runtime::open_source(request.source, {}, runtime::Split::Train, options);
  }
  TrainingData data{pictures.source.shape, pictures.source.size(), pictures.source.num_classes};
  words += test_share_option(data.samples);
  data.has_test = !test_share_option(data.samples).empty();
  const std::string folder = std::filesystem::absolute(request.source).lexically_normal().string();
  return training_files(request, data, packing_step(folder, words), kPackedData);
}

}  // namespace dlflow
