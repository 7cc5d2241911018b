#include "runtime/train/evaluation.h"
#include "steps/predict/formats.h"

namespace dlflow::steps {
namespace {

/// The masks that a network of masks gives for the samples of `prediction`, a byte per pixel.
std::string masks_of(const runtime::Model& model, const runtime::Prediction& prediction) {
  const auto size = size_t(model.num_scores()), pixels = size / size_t(model.num_classes());
  std::string masks;
  std::vector<uint8_t> classes;
  for (size_t i = 0; i < prediction.labels.size(); ++i) {
    runtime::highest_classes(prediction.scores.subspan(i * size, size), pixels, classes);
    masks.append(classes.begin(), classes.end());
  }
  return masks;
}

/// Version 1.0 of https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
class NpyFile : public PredictionFile {
 public:
  explicit NpyFile(const runtime::Model& model) : model_(model) {}

  std::string name() const override { return "predictions.npy"; }

  std::string rows(const runtime::Prediction& prediction) const override {
    if (has_masks(model_.loss)) return masks_of(model_, prediction);
    const auto bytes = std::as_bytes(prediction.scores);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::string head(size_t samples) const override {
    const bool of_pixels = has_masks(model_.loss);
    std::string shape = std::to_string(samples) + ",";
    for (const int64_t size : std::span(model_.layers.back().shape).subspan(of_pixels ? 1 : 0)) {
      shape += " " + std::to_string(size) + ",";
    }
    std::string text = std::string("{'descr': '") + (of_pixels ? "|u1" : "<f4") +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
    constexpr size_t kBefore = 10, kAlignment = 64;
    const size_t padded = (kBefore + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
    text.append(padded - kBefore - text.size() - 1, ' ').push_back('\n');
    const char size[2] = {char(text.size() & 0xff), char(text.size() >> 8)};
    return std::string("\x93NUMPY\x01\x00", 8) + std::string(size, 2) + text;
  }

  const runtime::Model& model_;
};

}  // namespace

std::unique_ptr<PredictionFile> npy_file(const runtime::Model& model) {
  return std::make_unique<NpyFile>(model);
}

}  // namespace dlflow::steps
