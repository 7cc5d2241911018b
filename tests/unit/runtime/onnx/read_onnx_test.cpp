#include "runtime/onnx/read_onnx.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/protobuf.h"
#include "runtime/nn/layer_shapes.h"
#include "runtime/onnx/write_onnx.h"
#include "tests/support/catch.h"
#include "tests/support/onnx_message.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/runtime/nn/every_layer.h"
#include "tests/unit/runtime/nn/random_tensors.h"
#include "tests/unit/runtime/onnx/onnx_graph.h"

using namespace dlflow;
using namespace dlflow::runtime;
using test::file_of;
using test::floats;
using test::imported;
using test::node;
using test::refusal;
using test::with;

namespace {

/// The file that write_onnx() makes of the problem, with an unscaled input unless `scale` is given.
std::string written(const test::Problem& problem, const std::optional<InputScale>& scale = {}) {
  const test::TempDir folder;
  std::map<std::string, std::vector<float>> floats;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : problem.weights) {
    floats[name] = {tensor.values.begin(), tensor.values.end()};
    views.push_back(
        tensor_view<float>(name, {tensor.shape.begin(), tensor.shape.end()}, floats[name]));
  }
  write_safetensors(folder.path() / "w", views);
  write_onnx(folder.path() / "m.onnx", problem.model, Safetensors::open(folder.path() / "w"),
             scale.value_or(InputScale{{1}, {0}}), {});
  return read_file(folder.path() / "m.onnx");
}

std::vector<double> scores(const ImportedNetwork& network, const reference::Tensor& images,
                           std::span<const float> second = {}) {
  reference::NamedTensors weights;
  for (const auto& [name, tensor] : network.weights) {
    weights[name] = reference::Tensor(tensor.shape);
    weights[name].values = {tensor.numbers.begin(), tensor.numbers.end()};
  }
  return reference::infer(network.model, weights, images, second).values;
}

void check_same_scores(const test::Problem& problem) {
  const ImportedNetwork network = imported(written(problem));
  const std::vector<double> ours = scores(network, problem.images);
  const std::vector<double> expected =
      reference::infer(problem.model, problem.weights, problem.images).values;
  REQUIRE(ours.size() == expected.size());
  for (size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == Approx(expected[i]).margin(1e-6));
}

test::Problem problem_of(const std::string& input, const std::string& layers) {
  return test::make_problem(input, layers, 2);
}

void check_same_names(const ImportedNetwork& network, const test::Problem& problem) {
  std::set<std::string> ours, expected;
  for (const auto& [tensor, unused] : network.weights) ours.insert(tensor);
  for (const auto& [tensor, unused] : problem.weights) expected.insert(tensor);
  CHECK(ours == expected);
}

/// Whether write_onnx() makes a layer of several operators.
bool is_put_together(const Model& model) {
  const std::set<LayerKind> kinds = {LayerKind::AdaptiveAvgPool, LayerKind::Attention,
                                     LayerKind::Gelu, LayerKind::GroupNorm, LayerKind::RmsNorm};
  const bool has_texts = model.takes_tokens() && model.loss == LossKind::SoftmaxCrossEntropy;
  return std::ranges::any_of(model.layers, [&](const Layer& layer) {
    return kinds.contains(layer.kind) || (layer.kind == LayerKind::MeanPool && has_texts);
  });
}

}  // namespace

TEST_CASE("an exported network of every layer comes back or is refused", "[onnx]") {
  for (const test::LayerCase& layer : test::every_layer()) {
    INFO(layer.layers);
    const test::Problem problem = problem_of(layer.input, layer.layers);
    if (is_put_together(problem.model)) {
      CHECK_THAT(refusal(written(problem)),
                 Catch::StartsWith("node 'tested") ||
                     Catch::StartsWith("the file has 2 inputs: 'input', 'lengths'"));
    } else {
      check_same_scores(problem);
    }
  }
}

namespace {

/// The same network with fewer features, so that its weights take little memory.
std::string smaller(std::string text) {
  const std::pair<const char*, const char*> sizes[] = {{"[3, 224, 224]", "[3, 32, 32]"},
                                                       {"features: 1000}", "features: 10}"},
                                                       {"features: 4096}", "features: 24}"},
                                                       {"vocabulary: 50257", "vocabulary: 60"},
                                                       {"features: 50257", "features: 60"},
                                                       {"features: 3072", "features: 96"},
                                                       {"features: 2304", "features: 72"},
                                                       {"features: 768", "features: 24"},
                                                       {"[1024]", "[8]"}};
  for (const auto& [from, to] : sizes) {
    for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + 1))
      text.replace(at, std::strlen(from), to);
  }
  return text;
}

/// The layers without names, which files have only for layers with weights, and without attributes
/// that files do not contain.
std::vector<Layer> without_names(const Model& model) {
  std::vector<Layer> layers = model.layers;
  for (Layer& layer : layers) {
    layer.name.clear();
    layer.line = layer.column = 0;
    layer.init = Init::PyTorch;
  }
  return layers;
}

bool is_for_training_alone(const Layer& layer) {
  return layer.kind == LayerKind::Dropout || layer.kind == LayerKind::StochasticDepth;
}

}  // namespace

TEST_CASE("each model with one operator per layer is read back as it was exported", "[onnx]") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(DLFLOW_MODELS))
    files.push_back(entry.path());
  int num_read = 0;
  for (const std::filesystem::path& file : files) {
    INFO(file);
    const test::Problem problem =
        test::make_problem(parse_model(smaller(read_file(file)), file.string()), 1);
    if (is_put_together(problem.model)) continue;
    ++num_read;
    const ImportedNetwork network = imported(written(problem));
    check_same_names(network, problem);
    for (const auto& [name, tensor] : network.weights) {
      const std::vector<double>& expected = problem.weights.at(name).values;
      CHECK(std::ranges::equal(tensor.numbers, expected, {}, [](float x) { return double(x); }));
    }
    CHECK(parse_model(network.model.text, "again.yaml").layers == network.model.layers);
    if (std::ranges::any_of(problem.model.layers, is_for_training_alone)) continue;
    CHECK(without_names(network.model) == without_names(problem.model));
  }
  CHECK(num_read >= 10);
}

TEST_CASE("a mean over positions without further inputs is a mean_pool", "[onnx]") {
  const auto mean = [](std::vector<int64_t> axes) {
    return file_of({node("Gather", {"table", "x"}, "e"),
                    Message(node("ReduceMean", {"e"}, "m"))
                        .add(5, Message().add(1, std::string_view("axes")).add(8, std::span(axes)))
                        .add(5, Message().add(1, std::string_view("keepdims")).add(3, uint64_t{0})),
                    node("MatMul", {"m", "w"}, "y")},
                   {floats("table", {5, 3}), floats("w", {3, 2})}, {-1, 6});
  };
  CHECK(imported(mean({1})).model.layers[1].kind == LayerKind::MeanPool);
  CHECK(imported(mean({-2})).model.layers[1].kind == LayerKind::MeanPool);
  CHECK_THAT(refusal(mean({2})),
             Catch::Contains("(ReduceMean): dlflow has only means of whole maps"));
}

TEST_CASE("a scaling of the input at the start of a file is its normalisation", "[onnx]") {
  const test::Problem problem = problem_of(
      "[2, 4, 4]", "- conv2d: {channels: 2, kernel: 3}\n- flatten\n- linear: {features: 3}\n");
  const ImportedNetwork network = imported(written(problem, InputScale{{2, 3}, {0.5f, -1}}));
  REQUIRE(network.normalization);
  CHECK(*network.normalization == InputScale{{2, 3}, {0.5f, -1}});
  CHECK(network.model.layers.size() == 3);
}

TEST_CASE("a softmax at the end is left out, since the loss has one", "[onnx]") {
  const ImportedNetwork network =
      imported(written(problem_of("[4]", "- linear: {features: 3}\n- softmax\n")));
  CHECK(network.model.layers.size() == 1);
  REQUIRE(network.notes.size() == 1);
  CHECK_THAT(network.notes[0], Catch::Contains("softmax"));
}

TEST_CASE("zeros around a map are the padding of the convolution that reads them", "[onnx]") {
  const auto padded = [](std::vector<int64_t> pads) {
    const std::vector<int64_t> shape = {8};
    const Message sizes = Message()
                              .add(1, std::span(shape))
                              .add(2, uint64_t{7})
                              .add(8, std::string_view("p"))
                              .add(7, std::span(pads));
    return file_of({node("Pad", {"x", "p"}, "a"), node("Conv", {"a", "w"}, "b"),
                    node("GlobalAveragePool", {"b"}, "c"), node("Flatten", {"c"}, "y")},
                   {floats("w", {2, 3, 3, 5}), sizes}, {-1, 3, 8, 8});
  };
  const Model model = imported(padded({0, 0, 1, 2, 0, 0, 1, 2})).model;
  CHECK(model.layers[0].padding == Extent(1, 2));
  CHECK(model.layers[0].shape == TensorShape{2, 8, 8});
  CHECK_THAT(refusal(padded({0, 0, 1, 2, 0, 0, 0, 2})),
             Catch::Contains("it pads the sides of a map differently"));
}

TEST_CASE("padding given as SAME is computed", "[onnx]") {
  const auto convolved = [](const std::string& operation, std::vector<int64_t> weights,
                            int64_t stride) {
    const std::vector<int64_t> strides = {stride, stride};
    const Message same =
        Message().add(1, std::string_view("auto_pad")).add(4, std::string_view("SAME_UPPER"));
    const Message steps = Message().add(1, std::string_view("strides")).add(8, std::span(strides));
    return file_of({node(operation, {"x", "w"}, "a").add(5, same).add(5, steps),
                    node("GlobalAveragePool", {"a"}, "b"), node("Flatten", {"b"}, "y")},
                   {floats("w", std::move(weights))}, {-1, 3, 8, 8});
  };
  CHECK(imported(convolved("Conv", {2, 3, 5, 3}, 1)).model.layers[0].padding == Extent(2, 1));
  CHECK(imported(convolved("Conv", {2, 3, 1, 1}, 2)).model.layers[0].padding == Extent(0));
  CHECK_THAT(refusal(convolved("Conv", {2, 3, 3, 3}, 2)),
             Catch::Contains("it pads the sides of a map differently"));
  CHECK_THAT(refusal(convolved("ConvTranspose", {3, 2, 2, 2}, 2)),
             Catch::Contains("its padding depends on the size of the map"));
}

TEST_CASE("names from a foreign file are made printable in messages", "[onnx]") {
  const Message epsilon =
      Message().add(1, std::string_view("epsilon")).add(2, 1e-3f).add(20, uint64_t{1});
  const std::string name = "\x1b[31m\xff";
  const ImportedNetwork network =
      imported(file_of({node("BatchNormalization", {"x", "b", "b", "b", "b"}, name).add(5, epsilon),
                        node("MatMul", {name, "w"}, "y")},
                       {floats("b", {3}), floats("w", {3, 2})}, {-1, 3}));
  REQUIRE(network.notes.size() == 1);
  CHECK(network.notes[0].find(name) == std::string::npos);
  CHECK_THAT(network.notes[0], Catch::Contains("has another epsilon"));
}

TEST_CASE("another epsilon of batch normalisation is folded into the running variance", "[onnx]") {
  const Message normalized =
      with(node("BatchNormalization", {"x", "b", "b", "b", "b"}, "n"), "epsilon", 1e-3f);
  const ImportedNetwork network =
      imported(file_of({normalized, node("MatMul", {"n", "w"}, "y")},
                       {floats("b", {3}), floats("w", {3, 2})}, {-1, 3}));
  std::vector<float> variances;
  for (const auto& [name, tensor] : network.weights) {
    if (name.ends_with("running_var")) variances = tensor.numbers;
  }
  REQUIRE(variances.size() == 3);
  for (const float each : variances) CHECK(each == Approx(0.5 + 1e-3 - 1e-5).epsilon(1e-6));
}

TEST_CASE("a linear layer with the weights of the embedding is tied to it", "[onnx]") {
  const std::string embedding = "- embedding: {name: tokens, vocabulary: 5, features: 4}\n";
  const test::Problem problem = test::make_problem(
      "[6]", embedding + "- linear: {features: 5, tied: tokens, bias: true}\n", 2, "next_token");
  const ImportedNetwork network = imported(written(problem));
  CHECK(network.model.layers[1].tied == 0);
  CHECK(network.weights.size() == 2);
  CHECK(network.notes.empty());
  check_same_scores(problem);
  // With pooling, so that the weights belong to a Gemm.
  check_same_scores(test::make_problem(
      "[1]", embedding + "- flatten\n- linear: {features: 5, tied: tokens, bias: false}\n", 2));

  test::Problem twice = test::make_problem(
      "[6]", embedding + "- linear: {name: last, features: 5, bias: false}\n", 2, "next_token");
  CHECK(imported(written(twice)).model.layers[1].tied == kImages);
  twice.weights["last.weight"] = twice.weights["tokens.weight"];
  const ImportedNetwork stored_twice = imported(written(twice));
  CHECK(stored_twice.model.layers[1].tied == 0);
  REQUIRE(stored_twice.notes.size() == 1);
  CHECK_THAT(stored_twice.notes[0], Catch::Contains("the model trains them as one"));
}

TEST_CASE("other weights that two layers share are refused", "[onnx]") {
  const std::string refused = "are the weights of two nodes";
  const Message gather = node("Gather", {"w", "x"}, "e");
  const std::vector<Message> square = {floats("w", {3, 3}), floats("v", {3, 3}),
                                       test::numbers_of("u", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})};
  const auto of = [&](const std::vector<Message>& nodes) {
    return refusal(file_of(nodes, square, {-1, 4}));
  };
  CHECK_THAT(of({gather, node("MatMul", {"e", "v"}, "a"), node("MatMul", {"a", "v"}, "y")}),
             Catch::Contains(refused));
  CHECK_THAT(of({node("Gather", {"u", "x"}, "e"), node("MatMul", {"e", "u"}, "y")}),
             Catch::Contains(refused));
  CHECK_THAT(of({gather, node("Transpose", {"w"}, "t"), node("Transpose", {"w"}, "u"),
                 node("MatMul", {"e", "t"}, "a"), node("MatMul", {"a", "u"}, "y")}),
             Catch::Contains(refused));
  CHECK_THAT(of({gather, node("Transpose", {"w"}, "t"), node("MatMul", {"e", "t"}, "a"),
                 node("MatMul", {"a", "t"}, "y")}),
             Catch::Contains(refused));
}

TEST_CASE("a bias does not belong to a layer whose result is also read without it", "[onnx]") {
  const auto of = [](const std::vector<Message>& nodes) {
    return refusal(file_of(nodes, {floats("w", {3, 2}), floats("b", {2})}, {-1, 3}));
  };
  const Message product = node("MatMul", {"x", "w"}, "m"), same = node("Identity", {"m"}, "n");
  CHECK(of({product, same, node("Add", {"n", "b"}, "y")}) == "none");
  CHECK_THAT(of({product, same, node("Relu", {"m"}, "r"), node("Add", {"n", "b"}, "s"),
                 node("Add", {"s", "r"}, "y")}),
             Catch::Contains("'s' (Add): dlflow has no layer that computes with such a constant"));
}

TEST_CASE("the loss has to match the scores", "[onnx]") {
  const auto loss_of = [](const std::string& loss, const std::string& channels) {
    const std::string layer = "- conv2d: {channels: " + channels + ", kernel: 3, padding: 1}\n";
    return imported(written(test::make_problem("[2, 4, 4]", layer, 1, loss))).model.loss;
  };
  CHECK(loss_of("reconstruction", "2") == LossKind::Reconstruction);
  CHECK(loss_of("pixel_cross_entropy", "5") == LossKind::PixelCrossEntropy);
}

TEST_CASE("nodes whose result is unused are not read", "[onnx]") {
  const std::string content = file_of({node("MatMul", {"x", "w"}, "y"), node("Einsum", {"x"}, "z")},
                                      {floats("w", {3, 2})}, {-1, 3});
  CHECK(imported(content).model.layers.size() == 1);
}

TEST_CASE("a node without a matching layer of dlflow is refused by its name", "[onnx]") {
  const std::vector<Message> weights = {floats("w", {3, 2}), floats("b", {2})};
  const auto of = [&](const std::vector<Message>& nodes, std::vector<int64_t> input = {-1, 3}) {
    return refusal(file_of(nodes, weights, input));
  };
  const auto starts = [](const char* text) { return Catch::StartsWith(text); };
  CHECK_THAT(of({node("Einsum", {"x", "w"}, "y")}),
             starts("node 'y' (Einsum): dlflow has no layer for it; docs/user/model-format.md"));
  CHECK_THAT(of({node("MatMul", {"x", "v"}, "y")}),
             starts("node 'y' (MatMul): nothing before it gives 'v'"));
  CHECK_THAT(of({node("MatMul", {"x"}, "y")}), starts("node 'y' (MatMul): its input 2 is missing"));
  CHECK_THAT(of({node("MatMul", {"x", "w"}, "y")}, {-1, 5}),
             Catch::Contains("its weights are for 3 features, but it gets 5"));
  CHECK_THAT(of({node("MatMul", {"x", "w"}, "y")}, {-1, -1}), Catch::Contains("--input"));
  CHECK_THROWS_WITH(
      import_onnx(parse_onnx(file_of({node("MatMul", {"x", "w"}, "y")}, weights, {-1, 3}), ""), "n",
                  TensorShape{3, 4}),
      "--input (B,3,4): the file says (B,3)");
  for (const char* operation : {"Mul", "Div", "Sub"}) {
    CHECK_THAT(of({node("MatMul", {"x", "w"}, "m"), node(operation, {"m", "b"}, "y")}),
               Catch::StartsWith("node 'y' (" + std::string(operation) +
                                 "): dlflow has no layer that computes with such a constant"));
  }
  CHECK_THROWS_WITH(import_onnx(parse_onnx(file_of({node("Relu", {"x"}, "y")}, {}, {-1, 3}), "."),
                                "net", TensorShape{0}),
                    "the sizes of a sample must be at least 1, not (B,0)");
  CHECK_THAT(of({node("Relu", {"x"}, "y")}, {-1, 1 << 29}),
             Catch::Contains("more than 2^28 numbers"));
  CHECK(of({node("Identity", {"x"}, "y")}) ==
        "the file's output is not the result of its last operation");
}

TEST_CASE("a network has one input and one output", "[onnx]") {
  const auto of = [](const std::vector<Message>& inputs, const std::vector<Message>& outputs) {
    Message graph;
    graph.add(1, node("MatMul", {"x", "w"}, "y")).add(5, floats("w", {3, 2}));
    for (const Message& input : inputs) graph.add(11, input);
    for (const Message& output : outputs) graph.add(12, output);
    return refusal(Message().add(7, graph).add(8, Message().add(2, uint64_t{17})).bytes());
  };
  constexpr uint64_t kInt64 = 7;
  const Message x = test::port("x", {-1, 3}), y = test::port("y", {-1, 2});
  CHECK(of({x}, {y}) == "none");
  CHECK(of({x}, {y, test::port("z", {-1}), test::port("a", {-1})}) ==
        "the file has 3 outputs: 'y', 'z', 'a'; dlflow reads networks with one");
  CHECK(of({x, test::port("n", {-1, 3}, kInt64)}, {y}) ==
        "the file has 2 inputs: 'x', 'n'; dlflow reads networks with one");
  CHECK_THAT(of({x, test::port("lengths", {-1}, kInt64)}, {y}),
             Catch::StartsWith("the file has 2 inputs: 'x', 'lengths'"));
}

TEST_CASE("invalid, truncated or huge files are refused before memory is allocated", "[onnx]") {
  CHECK_THROWS_WITH(parse_onnx("", "."), "it has no network");
  CHECK_THROWS_WITH(parse_onnx("\xff\xff", "."), "not a message of Protocol Buffers");
  const std::string good =
      file_of({node("MatMul", {"x", "w"}, "y")}, {floats("w", {3, 2})}, {-1, 3});
  CHECK_THROWS_AS(parse_onnx(std::string_view(good).substr(0, good.size() / 2), "."), Error);
  const std::vector<int64_t> huge = {int64_t{1} << 30, int64_t{1} << 30};
  const Message tensor =
      Message().add(1, std::span(huge)).add(2, uint64_t{1}).add(8, std::string_view("w"));
  CHECK_THAT(refusal(file_of({}, {tensor}, {-1, 3})), Catch::Contains("has no valid shape"));
}

TEST_CASE("weights in other files are read only from the model's folder", "[onnx]") {
  const test::TempDir folder;
  const std::vector<float> numbers = {9, 1, 2, 3, 4, 5, 6};
  write_file(folder.path() / "weights.bin",
             {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4});
  const auto content = [&](const std::string& location, const std::string& offset) {
    const auto entry = [](const char* key, const std::string& value) {
      return Message().add(1, std::string_view(key)).add(2, std::string_view(value));
    };
    const std::vector<int64_t> shape = {3, 2};
    const Message tensor = Message()
                               .add(1, std::span(shape))
                               .add(2, uint64_t{1})
                               .add(8, std::string_view("w"))
                               .add(13, entry("location", location))
                               .add(13, entry("offset", offset))
                               .add(13, entry("length", "24"))
                               .add(14, uint64_t{1});
    return file_of({node("MatMul", {"x", "w"}, "y")}, {tensor}, {-1, 3});
  };
  const OnnxFile file = parse_onnx(content("weights.bin", "4"), folder.path());
  CHECK(file.constants.at("w").floats == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK_THROWS_WITH(parse_onnx(content("weights.bin", "8"), folder.path()),
                    Catch::Contains("ends before the numbers of constant 'w'"));
  CHECK_THROWS_WITH(parse_onnx(content("../weights.bin", "0"), folder.path()),
                    Catch::Contains("not the name of a file beside the model"));
  CHECK_THROWS_WITH(parse_onnx(content("/etc/passwd", "0"), folder.path()),
                    Catch::Contains("not the name of a file beside the model"));
}
