#include <algorithm>

#include "base/text.h"
#include "runtime/nn/model_parts.h"

namespace dlflow::runtime {
namespace {

constexpr std::pair<LossKind, const char*> kLosses[] = {
    {LossKind::SoftmaxCrossEntropy, "softmax_cross_entropy"},
    {LossKind::NextToken, "next_token"},
    {LossKind::Reconstruction, "reconstruction"},
    {LossKind::MeanSquaredError, "mse"},
    {LossKind::AbsoluteError, "l1"},
    {LossKind::Huber, "huber"},
    {LossKind::BinaryCrossEntropy, "bce"},
    {LossKind::PixelCrossEntropy, "pixel_cross_entropy"},
    {LossKind::Dice, "dice"},
    {LossKind::PixelCrossEntropyAndDice, "pixel_cross_entropy_and_dice"}};

void read_ignored_token(ModelValues& values, const YAML::Node& node, Model& model) {
  model.ignored_token = values.integer(node, "'ignored_token'", 0, kMaxUnits, nullptr);
  if (model.loss == LossKind::NextToken) return;
  values.report(node, "'ignored_token' needs 'loss: next_token'");
}

}  // namespace

std::string name(LossKind loss) {
  return std::ranges::find(kLosses, loss, &std::pair<LossKind, const char*>::first)->second;
}

void read_loss(ModelValues& values, const YAML::Node& root, Model& model) {
  const YAML::Node loss = root["loss"];
  const std::string word = loss ? values.text_of(loss, "'loss'") : "softmax_cross_entropy";
  const auto found = std::ranges::find(kLosses, word, &std::pair<LossKind, const char*>::second);
  if (found != std::end(kLosses)) {
    model.loss = found->first;
  } else {
    std::vector<std::string> known;
    for (const auto& [kind, known_word] : kLosses) known.emplace_back(known_word);
    values.report(loss, "unknown loss '" + word + "'; there are " + join(known, ", ") +
                            (word == "contrastive"
                                 ? "; train two towers in a run: step, with the package open_clip"
                                 : did_you_mean(word, known)));
  }
  if (const YAML::Node ignored = root["ignored_token"]) read_ignored_token(values, ignored, model);
}

}  // namespace dlflow::runtime
