#include "runtime/nn/model.h"

#include "base/file.h"
#include "runtime/nn/layer_costs.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/nn/layer_syntax.h"
#include "runtime/nn/model_text.h"
#include "tests/support/catch.h"
#include "tests/unit/runtime/nn/every_layer.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Model read(const std::string& name) {
  const std::string path = std::string(DLFLOW_MODELS) + "/" + name + ".yaml";
  return parse_model(read_file(path), path);
}

/// "LINE:COLUMN: message" of each mistake.
std::vector<std::string> mistakes(const std::string& text) {
  std::vector<std::string> found;
  try {
    parse_model(text, "m.yaml");
  } catch (const ModelError& e) {
    for (const ModelDiagnostic& d : e.diagnostics()) {
      found.push_back(std::to_string(d.line) + ":" + std::to_string(d.column) + ": " + d.message);
    }
  }
  return found;
}

/// The mistakes of a model with these layers, one per line from line 4.
std::vector<std::string> layer_mistakes(const std::string& layers) {
  return mistakes("name: m\ninput: [1, 28, 28]\nlayers:\n" + layers);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lenet's shapes are inferred", "[model]") {
  const Model lenet = read("lenet");
  CHECK(lenet.name == "lenet");
  CHECK(lenet.num_classes() == 10);
  std::vector<std::string> shapes;
  for (const Layer& layer : lenet.layers) shapes.push_back(to_string(layer.shape));
  CHECK(shapes == Lines{"(B,32,26,26)", "(B,32,26,26)", "(B,64,24,24)", "(B,64,24,24)",
                        "(B,64,12,12)", "(B,9216)", "(B,128)", "(B,128)", "(B,10)"});
}

TEST_CASE("each use of a block has its own name and parameters", "[model]") {
  const Model resnet = read("resnet20");
  CHECK(resnet.layers.size() == 3 + 7 * 7 + 2 * 9 + 2);
  const auto find = [&](const std::string& layer) {
    const auto at = std::ranges::find(resnet.layers, layer, &Layer::name);
    REQUIRE(at != resnet.layers.end());
    return *at;
  };
  CHECK(find("layer2.0.skip.0").stride == 2);
  CHECK(find("layer2.0.skip.0").shape == TensorShape{32, 14, 14});
  CHECK(find("layer3.2.bn2").shape == TensorShape{64, 7, 7});
  CHECK(find("fc").shape == TensorShape{10});
}

TEST_CASE("every layer has one name, and a row in model-format.md", "[model]") {
  const std::string page = read_file(DLFLOW_DOCS "/user/model-format.md");
  for (const auto& [word, syntax] : layer_syntax()) {
    CHECK(name(syntax.kind) == word);
    CHECK_THAT(page, Catch::Contains("| `" + word + "` |"));
  }
}

TEST_CASE("dlflow's models have as many parameters as their namesakes", "[model]") {
  const std::map<std::string, int64_t> counts = {
      {"resnet18", 11'689'512},   {"resnet34", 21'797'672}, {"resnet50", 25'557'032},
      {"vgg11", 132'863'336},     {"vgg16", 138'357'544},   {"mobilenet-v2", 3'504'872},
      {"densenet121", 7'978'856}, {"gpt-small", 4'870'144}, {"gpt2", 124'439'808},
      {"gpt-bytes", 174'656},     {"resnet20", 272'186},    {"googlenet", 6'624'904}};
  for (const auto& [name, expected] : counts) {
    const Model model = read(name);
    CAPTURE(name);
    CHECK(cost_of(model).parameters == expected);
  }
}

TEST_CASE("a forward pass has the multiply-adds of torchvision's tables", "[model]") {
  const std::map<std::string, double> billions = {
      {"resnet18", 1.814}, {"resnet34", 3.664},     {"resnet50", 4.089},    {"vgg11", 7.609},
      {"vgg16", 15.47},    {"mobilenet-v2", 0.301}, {"densenet121", 2.834}, {"googlenet", 1.498}};
  for (const auto& [name, expected] : billions) {
    CAPTURE(name);
    CHECK(double(cost_of(read(name)).multiply_adds) / 1e9 == Approx(expected).epsilon(2e-3));
  }
}

TEST_CASE("attention counts products only for the positions that it attends to", "[model]") {
  const auto layers = [](const std::string& causal) {
    return parse_model(
        "name: m\ninput: [4]\nlayers:\n  - embedding: {vocabulary: 5, features: 6}\n"
        "  - linear: {features: 18, bias: false}\n  - attention: {heads: 2, causal: " +
            causal + "}\n  - linear: {features: 5}\nloss: next_token\n",
        "m.yaml");
  };
  const Model all = layers("false"), causal = layers("true");
  CHECK(cost_of(all, all.layers[2]).multiply_adds == 2 * 16 * 6);
  CHECK(cost_of(causal, causal.layers[2]).multiply_adds == 2 * 10 * 6);
  CHECK(cost_of(all).parameters == 5 * 6 + 6 * 18 + 6 * 5 + 5);
}

TEST_CASE("the model's init applies to layers with weights and no init of their own", "[model]") {
  const Model model = parse_model(
      "name: m\ninput: [4]\ninit: he\nlayers:\n- linear: {features: 4}\n- batch_norm\n"
      "- linear: {features: 4, init: xavier}\n- linear: {features: 2, init: pytorch}\n",
      "m.yaml");
  const std::vector<Init> expected = {Init::He, Init::PyTorch, Init::Xavier, Init::PyTorch};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(model.layers[i].init == expected[i]);
  CHECK(layer_mistakes(
            "- flatten\n- linear: {features: 2, init: zero}\n- batch_norm: {init: he}\n") ==
        Lines{"5:31: 'init' must be 'pytorch', 'he' or 'xavier'",
              "6:22: 'init' of a normalisation must be 'pytorch' or 'zero'"});
}

TEST_CASE("mistakes in the attributes of layers are reported", "[model]") {
  CHECK(layer_mistakes("- conv2d: {channels: 4, kernel: 3, algorithm: fft}\n"
                       "- conv2d: {channels: 4, kernel: 3, stride: 2, algorithm: winograd}\n"
                       "- flatten\n- linear: {features: 2}\n") ==
        Lines{"4:47: 'algorithm' must be 'auto', 'direct' or 'winograd'",
              "5:58: 'algorithm: winograd' needs kernel 3, stride 1, dilation 1 and no groups"});
  CHECK(layer_mistakes("- conv2d: {name: a, channels: 4, kernel: [3, 3, 3]}\n"
                       "- dropout: {rate: 1}\n- conv2d: {channels: 6, kernel: 1, groups: 4}\n"
                       "- concat: {from: a}\n- max_pool: {kernel: [2, 1]}\n"
                       "- flatten\n- linear: {features: 2}\n") ==
        Lines{"4:42: 'kernel' must be a whole number or [height, width]",
              "5:19: 'rate' must be a number from 0 to less than 1",
              "7:18: 'from' of 'concat' is a list of two or more layers",
              "8:22: 'kernel' must be a whole number from 1 to 1048576"});
  CHECK(layer_mistakes("- conv2d: {name: a, channels: 4, kernel: 1}\n- concat: {from: [a, input]}\n"
                       "- max_pool: {name: m, kernel: 2}\n- concat: {from: [a, m]}\n"
                       "- flatten\n- linear: {features: 2}\n") ==
        Lines{"7:3: concat needs shapes that differ only in channels, but gets (B,4,28,28) from "
              "'a' and "
              "(B,5,14,14) from 'm'"});
}

TEST_CASE("groups divide the channels", "[model]") {
  CHECK(layer_mistakes("- conv2d: {channels: 4, kernel: 1}\n"
                       "- conv2d: {channels: 6, kernel: 1, groups: 4}\n"
                       "- flatten\n- linear: {features: 2}\n") ==
        Lines{"5:3: conv2d with 4 groups does not divide 6 channels"});
}

TEST_CASE("losses of targets take one number per target", "[model]") {
  const auto of = [](const std::string& loss, const std::string& layers) {
    return mistakes("name: m\ninput: [8]\nloss: " + loss + "\nlayers:\n" + layers);
  };
  for (const char* loss : {"mse", "l1", "huber", "bce"}) {
    CHECK(of(loss, "- linear: {features: 1}\n") == Lines{});
    CHECK(of(loss, "- linear: {features: 3}\n") == Lines{});
  }
  CHECK(
      mistakes(
          "name: m\ninput: [1, 8, 8]\nloss: l1\nlayers:\n- conv2d: {channels: 1, kernel: 3}\n") ==
      Lines{"5:3: with 'loss: l1' the last layer must give one number per target, (B,F); 'conv2d1' "
            "gives (B,1,6,6)"});
  CHECK(of("msee", "- linear: {features: 1}\n") ==
        Lines{"3:7: unknown loss 'msee'; there are softmax_cross_entropy, next_token, "
              "reconstruction, mse, l1, huber, bce, pixel_cross_entropy, dice, "
              "pixel_cross_entropy_and_dice; did you mean 'mse'?"});
  CHECK(of("contrastive", "- linear: {features: 2}\n") ==
        Lines{"3:7: unknown loss 'contrastive'; there are softmax_cross_entropy, next_token, "
              "reconstruction, mse, l1, huber, bce, pixel_cross_entropy, dice, "
              "pixel_cross_entropy_and_dice; train two towers in a run: step, with the package "
              "open_clip"});
}

TEST_CASE("losses of pixels take one score per class and pixel of the input", "[model]") {
  const auto of = [](const std::string& loss, const std::string& layers) {
    return mistakes("name: m\ninput: [1, 8, 8]\nloss: " + loss + "\nlayers:\n" + layers);
  };
  for (const std::string loss : {"pixel_cross_entropy", "dice", "pixel_cross_entropy_and_dice"}) {
    CHECK(of(loss, "- conv2d: {channels: 3, kernel: 1}\n") == Lines{});
    for (const std::string layers : {"- conv2d: {name: a, channels: 3, kernel: 3}\n",
                                     "- conv2d: {name: a, channels: 1, kernel: 1}\n",
                                     "- conv2d: {name: a, channels: 256, kernel: 1}\n"}) {
      const Lines lines = of(loss, layers);
      REQUIRE(lines.size() == 1);
      CHECK(lines[0].starts_with("5:3: with 'loss: " + loss +
                                 "' the last layer must give one score per class and pixel of the "
                                 "input, (B,classes,H,W), of 2 to 255 classes; 'a' gives (B,"));
    }
  }
  CHECK(of("dice", "- flatten\n- linear: {features: 3}\n").size() == 1);
}

TEST_CASE("mistakes of language models are reported", "[model]") {
  const auto of = [](const std::string& layers) {
    return mistakes("name: m\ninput: [8]\nloss: next_token\nlayers:\n" + layers);
  };
  const std::string tokens = "- embedding: {name: t, vocabulary: 9, features: 12}\n";
  CHECK(
      of(tokens + "- attention: {heads: 5}\n- linear: {features: 9}\n") ==
      Lines{"6:3: attention reads queries, keys and values of 5 + 2 * 5 heads, which do not divide "
            "the 12 features of 't'"});
  CHECK(of(tokens + "- linear: {features: 10, tied: t}\n") ==
        Lines{"6:32: the weight of 't' is (9, 12); a layer tied to it must have 9 features "
              "and read 12"});
  CHECK(of("- embedding: {name: t, vocabulary: 12, features: 12}\n"
           "- linear: {name: a, features: 12, tied: t}\n- linear: {features: 12, tied: t}\n") ==
        Lines{"7:32: 'a' is tied to 't' already; only one layer may be"});
  CHECK(of("- relu: {name: r}\n" + tokens + "- linear: {features: 9}\n") ==
        Lines{"6:3: embedding reads only 'input', the numbers of tokens; here it reads 'r'"});
  CHECK(of("- embedding: {name: t, vocabulary: 9, features: 12}\n"
           "- embedding: {name: u, vocabulary: 9, features: 12, from: input}\n"
           "- add: {from: t}\n- linear: {features: 9}\n") == Lines{});
  CHECK(of("- linear: {features: 8}\n") ==
        Lines{"5:3: the last layer must give one score per token and position, (B,T,F), where the "
              "input is (B,T), with F of at least 2; 'linear1' gives (B,8)"});
  CHECK(mistakes("name: m\ninput: [8]\nignored_token: 0\nlayers:\n- linear: {features: 2}\n") ==
        Lines{"3:16: 'ignored_token' needs 'loss: next_token'"});
}

TEST_CASE("a shape that does not fit is reported where the layer stands", "[model]") {
  CHECK(layer_mistakes("- flatten\n- linear: {name: fc1, features: 128}\n"
                       "- conv2d: {channels: 8, kernel: 3}\n- linear: {features: 10}\n") ==
        Lines{"6:3: conv2d needs (B,C,H,W), but gets (B,128) from 'fc1'"});
  CHECK(layer_mistakes("- linear: {features: 10}\n") ==
        Lines{"4:3: linear needs (B,F), but gets (B,1,28,28) from 'input'; put 'flatten' or "
              "'global_avg_pool' before it"});
  CHECK(layer_mistakes("- max_pool: {kernel: 29}\n- flatten\n- linear: {features: 2}\n") ==
        Lines{"4:3: max_pool with kernel 29 and padding 0 does not fit into (B,1,28,28)"});
  CHECK(layer_mistakes("- conv2d: {name: a, channels: 2, kernel: 3}\n- add: {from: input}\n"
                       "- flatten\n- linear: {features: 2}\n") ==
        Lines{"5:3: add needs two equal shapes, but gets (B,2,26,26) from 'a' and (B,1,28,28) from "
              "'input'"});
}

TEST_CASE("an unknown attribute of a layer is one mistake, whatever its value", "[model]") {
  const std::string end = "- flatten\n- linear: {name: a, features: 2}\n";
  CHECK(layer_mistakes("- gelu: {slope: 1}\n" + end) ==
        Lines{"4:10: unknown key 'slope' in 'gelu'; known: name, from"});
  CHECK(layer_mistakes("- relu: {rate: 2, kernel: none, init: all, bias: 3, tied: b}\n" + end) ==
        Lines{"4:10: unknown key 'rate' in 'relu'; known: name, from",
              "4:19: unknown key 'kernel' in 'relu'; known: name, from",
              "4:33: unknown key 'init' in 'relu'; known: name, from",
              "4:44: unknown key 'bias' in 'relu'; known: name, from",
              "4:53: unknown key 'tied' in 'relu'; known: name, from"});
}

TEST_CASE("all mistakes of a file are reported at once", "[model]") {
  CHECK(layer_mistakes("- conv3d: {channels: 8}\n- conv2d: {chanels: 8, kernel: 0}\n- flatten\n"
                       "- linear: {features: ten, from: nowhere}\n") ==
        Lines{"4:3: unknown layer 'conv3d'; did you mean 'conv2d'?",
              "5:12: unknown key 'chanels' in 'conv2d'; did you mean 'channels'?",
              "5:3: 'conv2d' needs 'channels'",
              "5:32: 'kernel' must be a whole number from 1 to 1048576",
              "7:22: 'features' must be a whole number from 1 to 1048576",
              "7:33: no layer 'nowhere' before this one"});
}

TEST_CASE("a layer by another library's name is refused with dlflow's name", "[model]") {
  CHECK(layer_mistakes("- dense: 3\n") ==
        Lines{"4:3: unknown layer 'dense'; did you mean 'linear'?"});
}

TEST_CASE("the inputs and outputs of a network are checked", "[model]") {
  CHECK(layer_mistakes("- relu\n") ==
        Lines{"4:3: the last layer must give one score per class, (B,F) with F of at least 2; "
              "'relu1' gives (B,1,28,28)",
              "4:1: no layer has weights: there is nothing to train"});
  CHECK(layer_mistakes("- flatten: {name: f}\n- linear: {name: unused, features: 2}\n"
                       "- linear: {features: 2, from: f}\n") ==
        Lines{"5:3: nothing reads 'unused'"});
}

TEST_CASE("a mistake in a block names the line of its use", "[model]") {
  const std::string head =
      "name: m\ninput: [4]\nblocks:\n  b:\n    - linear: {features: $n, bias: $bias}\nlayers:\n";
  CHECK(mistakes(head + "  - b: {name: one, n: 2, bias: false}\n") == Lines{});
  CHECK(mistakes(head + "  - b: {name: one, n: 2}\n") ==
        Lines{"5:36: '$bias' is not given (block 'b' used in line 7)"});
  CHECK(mistakes(head + "  - b: {name: one, n: 2, bias: true, k: 3}\n") ==
        Lines{"7:41: block 'b' does not use '$k'"});
  CHECK(mistakes(head + "  - b: {n: 2, bias: true}\n") ==
        Lines{"7:5: a block needs a 'name', which its layers' names begin with"});
}

TEST_CASE("a text that is not a model is refused", "[model]") {
  CHECK(mistakes("") == Lines{"1:1: a model is a YAML mapping with 'name', 'input' and 'layers'; "
                              "`dlflow model import` writes one from an ONNX file"});
  CHECK(mistakes("name: [").size() == 1);
  CHECK(mistakes(std::string(2 << 20, 'x')) ==
        Lines{"0:0: the file is larger than 1 MiB, which no model needs"});
  CHECK(mistakes("name: m\ninput: [1, 28]\nlayers: []\n") ==
        Lines{"2:8: 'input' must be [channels, height, width], or [features] or [tokens]"});
  CHECK(mistakes("name: m\ninput: [1048576]\nlayers: [linear: {features: 1048576}]\n").size() == 1);
}

TEST_CASE("a model whose layers need gigabytes for one image is refused", "[model][attack]") {
  std::string layers = "  - conv2d: {name: first, channels: 1, kernel: 1}\n";
  const auto mistakes_of = [](const std::string& text) {
    return mistakes("name: m\ninput: [1, 16384, 16384]\nlayers:\n" + text);
  };
  for (int i = 0; i < 4; ++i) layers += "  - relu\n";
  const Lines found = mistakes_of(layers);
  REQUIRE_FALSE(found.empty());
  CHECK_THAT(found.front(), Catch::StartsWith("8:") && Catch::Contains("the layer is too large"));
}

namespace {

/// The layers without their places in the file.
std::vector<Layer> layers_of(const Model& model) {
  std::vector<Layer> layers = model.layers;
  for (Layer& layer : layers) layer.line = layer.column = 0;
  return layers;
}

void check_written(const Model& model) {
  const std::string text = to_yaml(model);
  CAPTURE(text);
  const Model again = parse_model(text, "again.yaml");
  CHECK(again.name == model.name);
  CHECK(again.input == model.input);
  CHECK(again.loss == model.loss);
  CHECK(again.init == model.init);
  CHECK(again.ignored_token == model.ignored_token);
  CHECK(layers_of(again) == layers_of(model));
}

}  // namespace

TEST_CASE("a model that is written as text is read as the same model", "[model]") {
  for (const test::LayerCase& layer : test::every_layer()) {
    check_written(parse_model(
        "name: m\ninput: " + layer.input + "\ninit: he\nlayers:\n" + layer.layers, "m.yaml"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(DLFLOW_MODELS)) {
    check_written(parse_model(read_file(entry.path()), entry.path().string()));
  }
}
