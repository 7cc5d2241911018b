#include "runtime/nn/fusion.h"

#include "base/file.h"
#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

/// Each fused layer as "name(inputs)", with "+relu".
std::vector<std::string> fused(const std::string& layers) {
  const Model model = parse_model("name: m\ninput: [2, 8, 8]\nlayers:\n" + layers, "m.yaml");
  const std::vector<FusedLayer> result = fuse(model);
  std::vector<std::string> names;
  for (const FusedLayer& f : result) {
    std::string text = model.layers[size_t(f.layer)].name + "(";
    for (const int i : f.inputs) {
      if (text.back() != '(') text += ",";
      text += i == kImages ? "input" : model.layers[size_t(result[size_t(i)].layer)].name;
    }
    names.push_back(text + (f.capped ? ")+relu6" : f.relu ? ")+relu" : ")"));
  }
  return names;
}

using Names = std::vector<std::string>;
const std::string kEnd = "- flatten: {name: f}\n- linear: {name: fc, features: 2}\n";

}  // namespace

TEST_CASE("a ReLU goes into the layer before it, past a max_pool", "[fusion]") {
  CHECK(fused("- conv2d: {name: a, channels: 2, kernel: 3}\n- relu\n"
              "- conv2d: {name: b, channels: 2, kernel: 3}\n- relu\n- max_pool: {name: p, kernel: "
              "2}\n" +
              kEnd) == Names{"a(input)+relu", "b(a)", "p(b)+relu", "f(p)", "fc(f)"});
}

TEST_CASE("a value with other readers keeps a separate ReLU", "[fusion]") {
  CHECK(fused("- conv2d: {name: a, channels: 2, kernel: 1}\n- relu: {name: r}\n"
              "- add: {name: s, from: a}\n" +
              kEnd) == Names{"a(input)", "r(a)", "s(r,a)", "f(s)", "fc(f)"});
}

TEST_CASE("a batch_norm adds the residual after it once both results are computed", "[fusion]") {
  CHECK(
      fused("- conv2d: {name: c, channels: 2, kernel: 1}\n- batch_norm: {name: n}\n"
            "- conv2d: {name: s, channels: 2, kernel: 1, from: input}\n- add: {from: n}\n- relu\n" +
            kEnd) == Names{"c(input)", "s(input)", "n(c,s)+relu", "f(n)", "fc(f)"});
}

TEST_CASE("a batch_norm adds one residual only", "[fusion]") {
  CHECK(fused("- conv2d: {name: c, channels: 2, kernel: 1}\n- batch_norm: {name: n}\n"
              "- add: {from: c}\n- add: {name: s, from: c}\n" +
              kEnd) == Names{"c(input)", "n(c,c)", "s(n,c)", "f(s)", "fc(f)"});
}

TEST_CASE("an add without a batch_norm stays a layer", "[fusion]") {
  CHECK(fused("- conv2d: {name: c, channels: 2, kernel: 1}\n- add: {name: s, from: c}\n- relu\n" +
              kEnd) == Names{"c(input)", "s(c,c)+relu", "f(s)", "fc(f)"});
}

TEST_CASE("a whole ResNet becomes convolutions and batch normalisations", "[fusion]") {
  const std::string path = std::string(DLFLOW_MODELS) + "/resnet20.yaml";
  const Model model = parse_model(read_file(path), path);
  size_t others = 0;
  for (const FusedLayer& f : fuse(model)) {
    const LayerKind kind = model.layers[size_t(f.layer)].kind;
    if (kind != LayerKind::Conv2d && kind != LayerKind::BatchNorm) ++others;
  }
  CHECK(others == 2);  // global_avg_pool and fc
}

TEST_CASE("a ReLU6 is fused only into batch normalisation", "[fusion]") {
  CHECK(fused("- conv2d: {name: c, channels: 2, kernel: 1}\n- batch_norm: {name: n}\n- relu6\n"
              "- conv2d: {name: d, channels: 2, kernel: 1}\n- relu6: {name: r}\n" +
              kEnd) == Names{"c(input)", "n(c)+relu6", "d(n)", "r(d)", "f(r)", "fc(f)"});
  CHECK(fused("- batch_norm: {name: n}\n- relu\n- relu6: {name: r}\n" + kEnd) ==
        Names{"n(input)+relu", "r(n)", "f(r)", "fc(f)"});
}
