#include "runtime/nn/layer_syntax.h"

namespace dlflow::runtime {

const std::map<std::string, LayerSyntax>& layer_syntax() {
  static const std::map<std::string, LayerSyntax> syntax = {
      {"conv2d", {LayerKind::Conv2d, {"channels", "kernel"}, {"stride", "padding", "bias"}}},
      {"linear", {LayerKind::Linear, {"features"}, {"bias"}}},
      {"batch_norm", {LayerKind::BatchNorm, {}, {}}},
      {"relu", {LayerKind::Relu, {}, {}}},
      {"max_pool", {LayerKind::MaxPool, {"kernel"}, {"stride", "padding"}}},
      {"avg_pool", {LayerKind::AvgPool, {"kernel"}, {"stride", "padding"}}},
      {"global_avg_pool", {LayerKind::GlobalAvgPool, {}, {}}},
      {"flatten", {LayerKind::Flatten, {}, {}}},
      {"add", {LayerKind::Add, {"from"}, {}}},
  };
  return syntax;
}

}  // namespace dlflow::runtime
