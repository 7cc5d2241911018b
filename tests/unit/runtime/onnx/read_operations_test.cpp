#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/onnx_message.h"
#include "tests/unit/runtime/onnx/onnx_graph.h"

/// What each operation of a file becomes, and what of it no layer of dlflow can be.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::file_of;
using test::floats;
using test::imported;
using test::node;
using test::numbers_of;
using test::refusal;
using test::whole_numbers;
using test::with;

namespace {

Message number(const std::string& name, float value) { return numbers_of(name, {}, {value}); }

/// Of nodes that read x, maps of a convolution (a network has weights), and give y.
std::string on_maps(const std::vector<Message>& nodes, std::vector<Message> constants = {},
                    const std::vector<int64_t>& input = {-1, 3, 8, 8}, uint64_t operator_set = 17) {
  std::vector<Message> all = {node("Conv", {"in", "first"}, "x")};
  all.insert(all.end(), nodes.begin(), nodes.end());
  constants.push_back(floats("first", {input[1], input[1], 1, 1}));
  return file_of(all, constants, input, operator_set, "in");
}

/// Of one operation on such maps, x, whose result is m.
struct OnMaps {
  std::vector<Message> constants = {};
  std::vector<int64_t> input = {-1, 3, 8, 8};

  std::string file(const std::vector<Message>& nodes) const {
    std::vector<Message> all = nodes;
    all.push_back(node("GlobalAveragePool", {"m"}, "g"));
    all.push_back(node("Flatten", {"g"}, "y"));
    return on_maps(all, constants, input);
  }
  Layer layer(const Message& operation) const {
    return imported(file({operation})).model.layers.at(1);
  }
  std::string refused(const Message& operation) const { return refusal(file({operation})); }
};

/// Of one operation on features (B,4), behind a linear layer.
struct OnFeatures {
  std::vector<Message> constants = {};
  uint64_t operator_set = 17;

  std::string file(const std::vector<Message>& nodes) const {
    std::vector<Message> all = {node("MatMul", {"x", "w"}, "l")};
    all.insert(all.end(), nodes.begin(), nodes.end());
    std::vector<Message> with_weights = constants;
    with_weights.push_back(floats("w", {3, 4}));
    return file_of(all, with_weights, {-1, 3}, operator_set);
  }
  Layer layer(const Message& operation) const {
    return imported(file({operation})).model.layers.at(1);
  }
  std::string refused(const Message& operation) const { return refusal(file({operation})); }
};

/// Of sequences (B,6,4), behind an embedding.
std::string on_sequences(const std::vector<Message>& nodes, std::vector<Message> constants = {}) {
  std::vector<Message> all = {node("Gather", {"table", "x"}, "e")};
  all.insert(all.end(), nodes.begin(), nodes.end());
  constants.push_back(floats("table", {5, 4}));
  return file_of(all, constants, {-1, 6});
}

}  // namespace

TEST_CASE("Clip is relu or relu6 by its bounds", "[onnx]") {
  const OnFeatures of{{number("zero", 0), number("six", 6), number("five", 5), number("one", 1),
                       number("huge", INFINITY), floats("two", {2})}};
  const auto kind = [&](const std::vector<std::string>& inputs) {
    return of.layer(node("Clip", inputs, "y")).kind;
  };
  CHECK(kind({"l", "zero", "six"}) == LayerKind::Relu6);
  CHECK(kind({"l", "zero"}) == LayerKind::Relu);
  CHECK(kind({"l", "zero", "huge"}) == LayerKind::Relu);
  for (const std::vector<std::string>& inputs : {std::vector<std::string>{"l", "zero", "five"},
                                                 {"l", "one", "six"},
                                                 {"l"},
                                                 {"l", "", "six"},
                                                 {"l", "one"}}) {
    CHECK_THAT(of.refused(node("Clip", inputs, "y")), Contains("no layer with these bounds"));
  }
  CHECK_THAT(of.refused(node("Clip", {"l", "two"}, "y")), Contains("its bounds are no numbers"));
  const OnFeatures old{{}, 9};
  CHECK(old.layer(with(with(node("Clip", {"l"}, "y"), "min", 0.0f), "max", 6.0f)).kind ==
        LayerKind::Relu6);
  CHECK_THAT(old.refused(with(node("Clip", {"l"}, "y"), "min", "x")),
             Contains("its attribute 'min' is no number"));
}

TEST_CASE("activations have dlflow's form alone", "[onnx]") {
  const OnFeatures of{
      {number("root", std::sqrt(0.5f)), number("one", 1), number("half", 0.5f), number("two", 2)}};
  const Message leaky = node("LeakyRelu", {"l"}, "y");
  CHECK(of.layer(leaky).slope == Approx(0.01));
  CHECK(of.layer(with(leaky, "alpha", 0.0f)).slope == 0);
  CHECK_THAT(of.refused(with(leaky, "alpha", 1.0f)), Contains("its slope is not from 0"));
  CHECK_THAT(of.refused(with(leaky, "alpha", -0.1f)), Contains("its slope is not from 0"));
  CHECK(of.layer(node("Gelu", {"l"}, "y")).kind == LayerKind::Gelu);
  CHECK_THAT(of.refused(with(node("Gelu", {"l"}, "y"), "approximate", "tanh")),
             Contains("not that by tanh"));
  CHECK_THAT(of.refused(with(node("Gelu", {"l"}, "y"), "approximate", 1)),
             Contains("its attribute 'approximate' is no text"));
  CHECK_THAT(of.refused(node("Erf", {"l"}, "y")), Contains("only as a part of gelu"));
  const auto gelu = [&](const std::vector<Message>& first, const char* factor) {
    std::vector<Message> all = first;
    all.push_back(node("Erf", {"s"}, "f"));
    all.push_back(node("Add", {"f", "one"}, "a"));
    all.push_back(node("Mul", {"l", "a"}, "m"));
    all.push_back(node("Mul", {"m", factor}, "y"));
    return of.file(all);
  };
  const std::string good = gelu({node("Mul", {"l", "root"}, "s")}, "half");
  CHECK(imported(good).model.layers.at(1).kind == LayerKind::Gelu);
  CHECK_THAT(refusal(gelu({node("Mul", {"l", "half"}, "s")}, "half")), Contains("part of gelu"));
  CHECK_THAT(
      refusal(gelu({node("Mul", {"l", "root"}, "r"), node("Add", {"r", "one"}, "s")}, "half")),
      Contains("part of gelu"));
  CHECK_THAT(refusal(gelu({node("Mul", {"l", "root"}, "s")}, "two")),
             Contains("no layer that computes with a constant"));
}

TEST_CASE("powers, roots and the like are parts of RMS normalisation alone", "[onnx]") {
  const OnFeatures of{{number("three", 3), number("two", 2)}};
  CHECK_THAT(of.refused(node("Pow", {"l", "three"}, "y")),
             Contains("powers only as parts of rms_norm"));
  CHECK_THAT(of.refused(node("Pow", {"l", "two"}, "y")), Contains("no layer that gives 'y'"));
  for (const char* operation : {"Sqrt", "Reciprocal"}) {
    CHECK_THAT(of.refused(node(operation, {"l"}, "y")), Contains("only as a part of rms_norm"));
  }
  CHECK_THAT(of.refused(node("Neg", {"l"}, "y")), Contains("only to rotate heads"));
  CHECK_THAT(of.refused(node("ReduceSum", {"l"}, "y")), Contains("only as a part of mean_pool"));
  CHECK_THAT(of.refused(node("Less", {"l", "two"}, "y")), Contains("texts of unequal length"));
  CHECK_THAT(of.refused(node("Mod", {"l", "two"}, "y")), Contains("of constants alone"));
}

TEST_CASE("SiLU is a sigmoid that nobody else reads, times what it reads", "[onnx]") {
  const OnFeatures of;
  const Message sigmoid = node("Sigmoid", {"l"}, "s");
  CHECK(imported(of.file({sigmoid, node("Mul", {"l", "s"}, "y")})).model.layers.at(1).kind ==
        LayerKind::Silu);
  CHECK(imported(of.file({sigmoid, node("Mul", {"s", "l"}, "y")})).model.layers.at(1).kind ==
        LayerKind::Silu);
  const std::string refused = "in silu, gelu and rms_norm alone";
  CHECK_THAT(
      refusal(of.file({sigmoid, node("Mul", {"l", "s"}, "m"), node("Add", {"m", "s"}, "y")})),
      Contains(refused));
  CHECK_THAT(refusal(of.file({node("Tanh", {"l"}, "s"), node("Mul", {"l", "s"}, "y")})),
             Contains(refused));
  CHECK_THAT(refusal(of.file({node("Relu", {"l"}, "r"), node("Sigmoid", {"r"}, "s"),
                              node("Mul", {"l", "s"}, "y")})),
             Contains(refused));
}

TEST_CASE("softmax is along the last dimension, by whatever number", "[onnx]") {
  const auto layers = [](const std::string& file) { return imported(file).model.layers.size(); };
  const OnFeatures of, old{{}, 11};
  const Message relu = node("Relu", {"s"}, "y"), softmax = node("Softmax", {"l"}, "s");
  for (const int axis : {-1, 1}) CHECK(layers(of.file({with(softmax, "axis", axis), relu})) == 3);
  CHECK(layers(of.file({softmax, relu})) == 3);
  CHECK(layers(old.file({softmax, relu})) == 3);
  CHECK_THAT(refusal(of.file({with(softmax, "axis", 0), relu})), Contains("along the last"));
  const Message of_sequence = node("Softmax", {"e"}, "y");
  CHECK(imported(on_sequences({of_sequence})).model.layers.size() == 1);  // the loss has it
  CHECK_THAT(refusal(on_sequences({with(of_sequence, "axis", 1)})), Contains("along the last"));
}

TEST_CASE("pools are squares without dilation, whose windows lie in the map and its padding",
          "[onnx]") {
  const OnMaps of;
  const Message pool = with(node("MaxPool", {"x"}, "m"), "kernel_shape", {2, 2});
  const Layer plain = of.layer(pool);
  CHECK(plain.kind == LayerKind::MaxPool);
  CHECK(plain.kernel == Extent(2));
  CHECK(plain.stride == Extent(1));
  CHECK(plain.padding == Extent(0));
  const Layer full = of.layer(with(with(pool, "strides", {3, 3}), "pads", {1, 1, 1, 1}));
  CHECK(full.stride == Extent(3));
  CHECK(full.padding == Extent(1));
  CHECK(of.layer(with(pool, "dilations", {1, 1})).kind == LayerKind::MaxPool);
  CHECK(of.layer(with(pool, "auto_pad", "VALID")).padding == Extent(0));
  CHECK_THAT(of.refused(with(node("MaxPool", {"x"}, "m"), "kernel_shape", {2, 3})),
             Contains("pools of dlflow are squares, its sides are not"));
  CHECK_THAT(of.refused(with(pool, "strides", {2, 1})), Contains("its strides are not"));
  CHECK_THAT(of.refused(with(pool, "pads", {0, 0, 1, 1})), Contains("its pads are not"));
  CHECK_THAT(of.refused(with(pool, "dilations", {2, 2})), Contains("have no dilation"));
  CHECK_THAT(of.refused(with(pool, "auto_pad", "SAME_UPPER")), Contains("depends on the size"));
  CHECK_THAT(of.refused(with(pool, "strides", {0, 0})), Contains("its sizes are below 1"));
  CHECK_THAT(of.refused(node("MaxPool", {"x"}, "m")), Contains("its sizes are below 1"));
  CHECK_THAT(of.refused(with(pool, "strides", {1'000'001, 1'000'001})),
             Contains("are not from 0 to 1,000,000"));
  CHECK_THAT(of.refused(with(pool, "strides", {-1, -1})), Contains("are not from 0 to 1,000,000"));
  CHECK_THAT(OnFeatures().refused(with(node("MaxPool", {"l"}, "y"), "kernel_shape", {2, 2})),
             Contains("pools of dlflow read (B,C,H,W), this gets (B,4)"));
}

TEST_CASE("a pool that rounds up is read if its windows lie inside anyway", "[onnx]") {
  const auto rounds_up = [](int64_t size, int64_t kernel, int64_t stride, int64_t pad) {
    const Message pool = with(with(node("MaxPool", {"x"}, "m"), "kernel_shape", {kernel, kernel}),
                              "strides", {stride, stride});
    const OnMaps of{{}, {-1, 3, size, size}};
    return of.refused(with(with(pool, "pads", {pad, pad, pad, pad}), "ceil_mode", 1));
  };
  CHECK(rounds_up(8, 2, 2, 0) == "none");
  CHECK_THAT(rounds_up(7, 2, 2, 0), Contains("lie half outside of the map (ceil_mode)"));
  CHECK(rounds_up(7, 3, 2, 1) == "none");
  CHECK_THAT(rounds_up(8, 3, 2, 0), Contains("lie half outside"));
  CHECK(rounds_up(3, 1, 3, 0) == "none");  // the window behind the map is left out
}

TEST_CASE("means of pools count the padding as zeros", "[onnx]") {
  const OnMaps of{{whole_numbers("p", {0, 0, 1, 1, 0, 0, 1, 1}), number("one", 1),
                   whole_numbers("q", {0, 0, 1, 2, 0, 0, 1, 2}), number("zero", 0),
                   whole_numbers("none", {0, 0, 0, 0, 0, 0, 0, 0})}};
  const Message pool = with(node("AveragePool", {"x"}, "m"), "kernel_shape", {2, 2});
  CHECK(of.layer(pool).kind == LayerKind::AvgPool);
  const Message padded = with(pool, "pads", {1, 1, 1, 1});
  CHECK_THAT(of.refused(padded), Contains("counts padding as zeros, this leaves it out"));
  CHECK(of.layer(with(padded, "count_include_pad", 1)).padding == Extent(1));
  const Message behind = with(node("AveragePool", {"p1"}, "m"), "kernel_shape", {2, 2});
  const auto of_padded = [&](const Message& pad, const Message& pooled) {
    return of.file({pad, pooled});
  };
  const Message zeros = node("Pad", {"x", "p"}, "p1");
  CHECK(imported(of_padded(zeros, behind)).model.layers[1].padding == Extent(1));
  CHECK(
      imported(of_padded(node("Pad", {"x", "p", "zero"}, "p1"), behind)).model.layers[1].padding ==
      Extent(1));
  CHECK(imported(of_padded(node("Pad", {"x", "none"}, "p1"), behind)).model.layers[1].padding ==
        Extent(0));
  CHECK_THAT(refusal(of_padded(node("Pad", {"x", "q"}, "p1"), behind)),
             Contains("other zeros around what it reads than a pool of dlflow"));
  CHECK_THAT(refusal(of_padded(zeros, with(node("MaxPool", {"p1"}, "m"), "kernel_shape", {2, 2}))),
             Contains("other zeros around"));
  CHECK_THAT(
      refusal(of_padded(zeros, with(with(behind, "pads", {1, 1, 1, 1}), "count_include_pad", 1))),
      Contains("other zeros around"));
  CHECK_THAT(refusal(of_padded(node("Pad", {"x", "p", "one"}, "p1"), behind)),
             Contains("padding of dlflow is zeros"));
  CHECK_THAT(refusal(of_padded(with(zeros, "mode", "reflect"), behind)),
             Contains("padding of dlflow is zeros"));
  CHECK_THAT(refusal(of.file({zeros, behind,
                              with(node("AveragePool", {"p1"}, "n"), "kernel_shape", {2, 2}),
                              node("Add", {"m", "n"}, "z")})),
             Catch::Equals("none"));  // 'n' is not needed for the output
}

TEST_CASE("means of whole maps are global_avg_pool, or keep their dimensions", "[onnx]") {
  const auto kind = [](const std::vector<Message>& nodes, int64_t side = 8) {
    return imported(on_maps(nodes, {}, {-1, 3, side, side})).model.layers[1].kind;
  };
  CHECK(kind({node("GlobalAveragePool", {"x"}, "y")}, 1) == LayerKind::AdaptiveAvgPool);
  CHECK(kind({node("GlobalAveragePool", {"x"}, "g"), node("Flatten", {"g"}, "y")}) ==
        LayerKind::GlobalAvgPool);
  const Message mean = node("ReduceMean", {"x"}, "y");
  CHECK(kind({with(with(mean, "axes", {2, 3}), "keepdims", 0)}) == LayerKind::GlobalAvgPool);
  CHECK(kind({with(with(mean, "axes", {-1, -2}), "keepdims", 0)}) == LayerKind::GlobalAvgPool);
  CHECK(kind({with(mean, "axes", {2, 3})}, 1) == LayerKind::AdaptiveAvgPool);
  CHECK_THAT(refusal(on_maps({with(mean, "axes", std::vector<int64_t>{1})})),
             Contains("means of whole maps and of positions alone"));
  CHECK_THAT(refusal(file_of({node("GlobalAveragePool", {"x"}, "y")}, {}, {-1, 3})),
             Contains("it is for maps, (B,C,H,W), and gets (B,3)"));
  const Message global = node("GlobalAveragePool", {"x"}, "g");
  const auto squeezed = [&](std::vector<int64_t> axes) {
    return on_maps({global, with(node("Squeeze", {"g"}, "y"), "axes", std::move(axes))}, {},
                   {-1, 3, 8, 8}, 11);
  };
  CHECK(imported(squeezed({2, 3})).model.layers.size() == 2);
  CHECK(imported(squeezed({-1, -2})).model.layers.size() == 2);
  CHECK_THAT(refusal(squeezed(std::vector<int64_t>{2})),
             Contains("no layer that gives this shape"));
  CHECK_THAT(
      refusal(on_maps({with(node("Squeeze", {"x"}, "y"), "axes", {2, 3})}, {}, {-1, 3, 8, 8}, 11)),
      Contains("no layer that gives this shape"));
}

TEST_CASE("Resize makes squares of pixels", "[onnx]") {
  OnMaps of{
      {numbers_of("two", {4}, {1, 1, 2, 2}), numbers_of("odd", {4}, {1, 1, 2, 3}),
       numbers_of("half", {4}, {1, 1, 1.5f, 1.5f}), numbers_of("small", {4}, {1, 1, 0.5f, 0.5f}),
       numbers_of("batch", {4}, {2, 1, 2, 2}), whole_numbers("sizes", {1, 3, 24, 12}),
       whole_numbers("more", {1, 4, 24, 12}), whole_numbers("one_way", {1, 3, 24, 4})},
      {-1, 3, 8, 4}};
  const auto resize = [](const std::vector<std::string>& inputs) {
    return with(with(node("Resize", inputs, "m"), "coordinate_transformation_mode", "asymmetric"),
                "nearest_mode", "floor");
  };
  CHECK(of.layer(resize({"x", "", "two"})).kind == LayerKind::Upsample);
  CHECK(of.layer(resize({"x", "", "two"})).scale == 2);
  CHECK(of.layer(resize({"x", "", "", "sizes"})).scale == 3);
  CHECK(of.layer(node("Resize", {"x", "", "two"}, "m")).scale == 2);  // round_prefer_floor
  CHECK(of.layer(with(node("Upsample", {"x", "two"}, "m"), "mode", "nearest")).scale == 2);
  const std::string squares = "makes a square of each pixel, a whole number wide";
  for (const char* scales : {"odd", "half", "small", "batch"}) {
    CHECK_THAT(of.refused(resize({"x", "", scales})), Contains(squares));
  }
  CHECK_THAT(of.refused(resize({"x", "", "", "more"})), Contains(squares));
  CHECK_THAT(of.refused(resize({"x", "", "", "one_way"})), Contains(squares));
  const std::string nearest = "takes the nearest pixel, this does not";
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"), "mode", "linear")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"),
                             "coordinate_transformation_mode", "align_corners")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"),
                             "coordinate_transformation_mode", "asymmetric")),
             Contains(nearest));
  CHECK_THAT(of.refused(with(node("Resize", {"x", "", "two"}, "m"), "nearest_mode", "floor")),
             Contains(nearest));
  CHECK_THAT(OnFeatures{of.constants}.refused(node("Resize", {"l", "", "two"}, "y")),
             Contains("it is for maps"));
}

TEST_CASE("concat joins channels of maps, or features", "[onnx]") {
  const OnMaps of{{floats("w", {2, 3, 1, 1}), floats("v", {4, 3, 1, 1})}};
  const Message one = node("Conv", {"x", "w"}, "a"), two = node("Conv", {"x", "v"}, "b");
  const auto joined = [&](int axis) {
    return of.file({one, two, with(node("Concat", {"a", "b"}, "m"), "axis", axis)});
  };
  CHECK(imported(joined(1)).model.layers[3].shape == TensorShape{6, 8, 8});
  CHECK(imported(joined(-3)).model.layers[3].shape == TensorShape{6, 8, 8});
  CHECK_THAT(refusal(joined(2)), Contains("joins channels or features"));
  CHECK(imported(of.file({one, with(node("Concat", {"a"}, "m"), "axis", 1)})).model.layers.size() ==
        3);
  const Message features = node("Concat", {"l", "l"}, "y");
  CHECK(OnFeatures().layer(with(features, "axis", -1)).shape == TensorShape{8});
  CHECK(OnFeatures().layer(with(features, "axis", 1)).shape == TensorShape{8});
}

TEST_CASE("convolutions have two dimensions, and padding that is the same on both sides",
          "[onnx]") {
  const OnMaps of{{floats("w", {2, 3, 3, 3}), floats("narrow", {2, 3, 3}),
                   floats("four", {2, 4, 3, 3}), floats("halves", {3, 1, 3, 3}),
                   floats("back", {3, 2, 2, 2}), floats("other", {4, 2, 2, 2}), floats("b", {2})}};
  const Message conv = node("Conv", {"x", "w"}, "m");
  CHECK(of.layer(conv).padding == Extent(0));
  CHECK(of.layer(with(conv, "auto_pad", "VALID")).padding == Extent(0));
  CHECK(of.layer(with(with(conv, "pads", {1, 2, 1, 2}), "strides", {2, 1})).padding ==
        Extent(1, 2));
  CHECK(of.layer(with(conv, "strides", {2, 1})).stride == Extent(2, 1));
  CHECK(of.layer(with(conv, "dilations", {2, 1})).dilation == Extent(2, 1));
  CHECK(of.layer(with(node("Conv", {"x", "halves"}, "m"), "group", 3)).groups == 3);
  CHECK_FALSE(of.layer(conv).bias);
  CHECK(of.layer(node("Conv", {"x", "w", "b"}, "m")).bias);
  const std::string dimensions = "dlflow has convolutions in two dimensions";
  CHECK_THAT(of.refused(node("Conv", {"x", "narrow"}, "m")), Contains(dimensions));
  CHECK_THAT(of.refused(with(conv, "strides", std::vector<int64_t>{2})), Contains(dimensions));
  CHECK_THAT(of.refused(with(conv, "pads", {1, 0, 0, 0})), Contains("pads the sides"));
  CHECK_THAT(of.refused(with(conv, "pads", {0, 1, 0, 0})), Contains("pads the sides"));
  CHECK_THAT(of.refused(with(conv, "pads", {1, 1})), Contains("pads the sides"));
  CHECK_THAT(of.refused(with(conv, "strides", {0, 1})), Contains("are below 1"));
  CHECK_THAT(of.refused(with(conv, "strides", {1, 0})), Contains("are below 1"));
  CHECK_THAT(of.refused(with(conv, "group", 0)), Contains("its groups are not from 1"));
  CHECK_THAT(of.refused(with(conv, "group", 1'000'001)), Contains("its groups are not from 1"));
  CHECK_THAT(of.refused(with(conv, "group", 1'000'000)),
             Contains("weights are for 3000000 channels"));
  CHECK_THAT(of.refused(node("Conv", {"x", "four"}, "m")),
             Contains("its weights are for 4 channels, it gets (B,3,8,8)"));
  const Message back = node("ConvTranspose", {"x", "back"}, "m");
  CHECK(of.layer(with(back, "strides", {2, 2})).shape == TensorShape{2, 16, 16});
  CHECK(of.layer(with(back, "output_padding", {0, 0})).kind == LayerKind::ConvTranspose2d);
  CHECK_THAT(of.refused(with(back, "output_padding", {0, 1})), Contains("no output_padding"));
  CHECK_THAT(of.refused(with(back, "output_shape", {16, 16})), Contains("no output_shape"));
  CHECK_THAT(of.refused(with(back, "group", 2)), Contains("no groups or dilation"));
  CHECK_THAT(of.refused(with(back, "dilations", {2, 2})), Contains("no groups or dilation"));
  CHECK_THAT(of.refused(node("ConvTranspose", {"x", "other"}, "m")),
             Contains("its weights are for 4 channels"));
}

TEST_CASE("Gemm has factors, turned weights and a bias", "[onnx]") {
  const std::vector<float> six = {1, 2, 3, 4, 5, 6};
  const std::vector<Message> constants = {
      numbers_of("w", {2, 3}, six), numbers_of("t", {3, 2}, six), numbers_of("b", {2}, {1, 2}),
      numbers_of("one", {1}, {7}), floats("three", {3})};
  const auto of = [&](const Message& gemm) { return file_of({gemm}, constants, {-1, 3}); };
  const auto tensors = [&](const Message& gemm) {
    const ImportedNetwork network = imported(of(gemm));
    std::vector<float> all;
    for (const auto& [name, tensor] : network.weights) {
      all.insert(all.end(), tensor.numbers.begin(), tensor.numbers.end());
    }
    return all;  // the bias before the weight
  };
  const Message plain = with(node("Gemm", {"x", "w"}, "y"), "transB", 1);
  CHECK(tensors(plain) == six);
  CHECK(tensors(node("Gemm", {"x", "t"}, "y")) == std::vector<float>{1, 3, 5, 2, 4, 6});
  CHECK(tensors(with(plain, "alpha", 2.0f)) == std::vector<float>{2, 4, 6, 8, 10, 12});
  const Message biased = with(node("Gemm", {"x", "w", "b"}, "y"), "transB", 1);
  CHECK(tensors(with(biased, "beta", 3.0f)) == std::vector<float>{3, 6, 1, 2, 3, 4, 5, 6});
  CHECK(tensors(with(node("Gemm", {"x", "w", "one"}, "y"), "transB", 1)) ==
        std::vector<float>{7, 7, 1, 2, 3, 4, 5, 6});
  CHECK_THAT(refusal(of(with(plain, "transA", 1))), Contains("it transposes what it reads"));
  CHECK_THAT(refusal(of(with(node("Gemm", {"x", "w", "three"}, "y"), "transB", 1))),
             Contains("its third input is no bias"));
  CHECK_THAT(refusal(of(with(node("Gemm", {"x", "b"}, "y"), "transB", 1))),
             Contains("its weights are no matrix"));
  CHECK_THAT(refusal(file_of({plain}, constants, {-1, 3, 8, 8})), Contains("not (B,F)"));
}

TEST_CASE("a constant may come first in a sum or product, and be one of several kinds", "[onnx]") {
  const OnFeatures of{{floats("b", {4}), floats("row", {1, 4}), floats("five", {5})}};
  for (const char* constant : {"b", "row"}) {
    const ImportedNetwork behind = imported(of.file({node("Add", {"l", constant}, "y")}));
    const ImportedNetwork before = imported(of.file({node("Add", {constant, "l"}, "y")}));
    CHECK(behind.model.layers.size() == 1);
    CHECK(behind.model.layers[0].bias);
    CHECK(before.model.layers == behind.model.layers);
  }
  CHECK_THAT(of.refused(node("Add", {"l", "five"}, "y")),
             Contains("computes with such a constant"));
  CHECK_THAT(of.refused(node("Sub", {"b", "l"}, "y")), Contains("no layer that subtracts"));
  CHECK_THAT(of.refused(node("Div", {"b", "l"}, "y")), Contains("no layer that divides"));

  const std::vector<Message> numbers = {floats("w", {3, 2}), numbers_of("c", {3}, {1, 2, 4}),
                                        numbers_of("d", {3}, {3, 5, 7}), number("two", 2)};
  const auto normalization = [&](const std::vector<Message>& nodes) {
    std::vector<Message> all = nodes;
    all.push_back(node("MatMul", {"n", "w"}, "y"));
    return imported(file_of(all, numbers, {-1, 3})).normalization;
  };
  CHECK(normalization({node("Sub", {"x", "c"}, "s"), node("Div", {"s", "c"}, "n")}) ==
        InputScale{{1, 0.5f, 0.25f}, {-1, -1, -1}});
  CHECK(normalization({node("Mul", {"c", "x"}, "s"), node("Add", {"d", "s"}, "n")}) ==
        InputScale{{1, 2, 4}, {3, 5, 7}});
  CHECK(normalization({node("Mul", {"x", "two"}, "n")}) == InputScale{{2, 2, 2}, {0, 0, 0}});
  CHECK(normalization({node("Sub", {"x", "c"}, "s"), node("Add", {"s", "c"}, "n")}) ==
        std::nullopt);
  const auto refused = [&](const std::vector<Message>& nodes) {
    return refusal(file_of(nodes, numbers, {-1, 3}));
  };
  const Message scaled = node("Mul", {"x", "two"}, "n"), shifted = node("Add", {"x", "c"}, "s");
  CHECK_THAT(refused({scaled, node("Add", {"n", "x"}, "y")}),
             Contains("read both as it is and with another scale"));
  CHECK_THAT(refused({scaled, shifted, node("Add", {"n", "s"}, "y")}), Contains("with two scales"));
}

TEST_CASE("add joins two results of one shape, one of them that of the layer before", "[onnx]") {
  const OnFeatures of{{floats("v", {4, 3}), floats("u", {4, 4})}};
  const Message relu = node("Relu", {"l"}, "r");
  CHECK(imported(of.file({relu, node("Add", {"l", "r"}, "y")})).model.layers[2].inputs ==
        std::vector<int>{1, 0});
  CHECK(imported(of.file({relu, node("Add", {"r", "l"}, "y")})).model.layers[2].inputs ==
        std::vector<int>{1, 0});
  CHECK_THAT(refusal(of.file({node("MatMul", {"l", "v"}, "s"), node("Add", {"l", "s"}, "y")})),
             Contains("two equal shapes, this gets (B,4) and (B,3)"));
  CHECK_THAT(refusal(of.file({relu, node("Tanh", {"l"}, "t"), node("Add", {"l", "r"}, "s"),
                              node("Add", {"s", "t"}, "y")})),
             Contains("it adds the results of two earlier layers"));
}

TEST_CASE("a table of positions has a row for each", "[onnx]") {
  const auto of = [](std::vector<int64_t> shape) {
    return on_sequences({node("Add", {"e", "p"}, "y")}, {floats("p", std::move(shape))});
  };
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6, 4}, {1, 6, 4}}) {
    const ImportedNetwork network = imported(of(shape));
    CHECK(network.model.layers.at(1).kind == LayerKind::Positions);
    CHECK(network.weights.at("positions1.weight").shape == std::vector<int64_t>{6, 4});
  }
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{7, 4}, {2, 6, 4}, {1, 7, 4}, {1, 6, 5}, {4, 6}}) {
    CHECK_THAT(refusal(of(shape)), Contains("computes with such a constant"));
  }
  CHECK_THAT(OnFeatures({floats("p", {6, 4})}).refused(node("Add", {"l", "p"}, "y")),
             Contains("computes with such a constant"));
}

TEST_CASE("a linear layer may read all positions in another order, and nothing else of a view",
          "[onnx]") {
  const std::vector<Message> constants = {floats("w", {4, 2}),         floats("b", {2}),
                                          whole_numbers("none", {0}),  whole_numbers("first", {0}),
                                          whole_numbers("third", {3}), whole_numbers("axis", {1})};
  const Message turned = with(node("Transpose", {"e"}, "t"), "perm", {1, 0, 2});
  const auto of = [&](const std::vector<Message>& nodes) { return on_sequences(nodes, constants); };
  const ImportedNetwork network =
      imported(of({turned, node("MatMul", {"t", "w"}, "m"), node("Add", {"m", "b"}, "s"),
                   with(node("Transpose", {"s"}, "y"), "perm", {1, 0, 2})}));
  CHECK(network.model.layers.size() == 2);
  CHECK(network.model.layers[1].shape == TensorShape{6, 2});
  CHECK(network.model.layers[1].bias);
  const std::string refused = "parts of a result or these in another order";
  const auto behind = [&](const Message& view) {
    return refusal(of({view, node("MatMul", {"t", "w"}, "y")}));
  };
  CHECK_THAT(behind(with(node("Transpose", {"e"}, "t"), "perm", {0, 2, 1})), Contains(refused));
  CHECK_THAT(behind(node("Slice", {"e", "axis", "third", "axis"}, "t")), Contains(refused));
  CHECK_THAT(behind(node("Slice", {"e", "first", "third", "axis"}, "t")), Contains(refused));
}

TEST_CASE("constants that are worked out are what they would be", "[onnx]") {
  /// Whether the whole number 'r', which `nodes` give, is `expected`: a size of a shape.
  const auto gives = [](const std::vector<Message>& nodes, int64_t expected,
                        std::vector<Message> constants) {
    std::vector<Message> all = nodes;
    all.push_back(with(node("Concat", {"batch", "r"}, "shape"), "axis", 0));
    all.push_back(node("Reshape", {"x", "shape"}, "y"));
    constants.push_back(whole_numbers("batch", {-1}));
    return refusal(on_maps(all, constants, {-1, expected, 1, 1}));
  };
  const std::vector<Message> numbers = {
      whole_numbers("seven", {7}),         whole_numbers("two", {2}),
      whole_numbers("minus", {-2}),        whole_numbers("zero", {0}),
      whole_numbers("list", {5, 6, 7, 8}), whole_numbers("huge", {int64_t{1} << 62}),
      numbers_of("f", {1}, {7.9f})};
  const auto whole = [&](const std::string& operation, const std::string& a, const std::string& b,
                         int64_t expected) {
    return gives({node(operation, {a, b}, "r")}, expected, numbers);
  };
  CHECK(whole("Add", "seven", "two", 9) == "none");
  CHECK(whole("Sub", "seven", "two", 5) == "none");
  CHECK(whole("Mul", "seven", "two", 14) == "none");
  CHECK(whole("Div", "seven", "two", 3) == "none");
  CHECK(whole("Mod", "seven", "two", 1) == "none");
  CHECK(whole("Add", "seven", "two", 10) != "none");
  CHECK_THAT(whole("Mul", "huge", "two", 1), Contains("beyond what can be computed"));
  CHECK_THAT(whole("Add", "huge", "huge", 1), Contains("beyond what can be computed"));
  CHECK_THAT(whole("Div", "seven", "minus", 1), Contains("whole numbers that are not positive"));
  CHECK_THAT(whole("Div", "minus", "two", 1), Contains("whole numbers that are not positive"));
  CHECK_THAT(whole("Div", "seven", "zero", 1), Contains("whole numbers that are not positive"));
  CHECK_THAT(whole("Add", "list", "f", 1), Contains("are no whole numbers"));
  const auto cast = [](const Message& from, int to) { return with(from, "to", to); };
  CHECK(gives({cast(node("Cast", {"f"}, "r"), 7)}, 7, numbers) == "none");
  CHECK(gives({cast(node("Cast", {"seven"}, "r"), 6)}, 7, numbers) == "none");
  CHECK(gives({cast(node("Cast", {"two"}, "g"), 1), node("Pow", {"g", "two"}, "h"),
               cast(node("Cast", {"h"}, "r"), 7)},
              4, numbers) == "none");
  CHECK(gives({node("Equal", {"seven", "two"}, "c"), node("Where", {"c", "two", "seven"}, "r")}, 7,
              numbers) == "none");
  CHECK(gives({node("Equal", {"two", "two"}, "c"), node("Where", {"c", "two", "seven"}, "r")}, 2,
              numbers) == "none");
  CHECK(gives({node("Slice", {"list", "two", "huge"}, "s"), node("Gather", {"s", "zero"}, "r")}, 7,
              numbers) == "none");
  CHECK(gives({node("Slice", {"list", "minus", "huge"}, "s"), node("Gather", {"s", "zero"}, "r")},
              7, numbers) == "none");
  CHECK(gives({node("Gather", {"list", "minus"}, "r")}, 7, numbers) == "none");
  CHECK_THAT(gives({node("Gather", {"list", "seven"}, "r")}, 7, numbers),
             Contains("its index is outside of the list"));
  CHECK(gives({node("ConstantOfShape", {"two"}, "s"), cast(node("Cast", {"s"}, "w"), 7),
               node("Gather", {"w", "zero"}, "g"), node("Add", {"g", "seven"}, "r")},
              7, numbers) == "none");
  CHECK(gives({with(node("ConstantOfShape", {"two"}, "s"), "value", whole_numbers("", {7})),
               node("Gather", {"s", "zero"}, "r")},
              7, numbers) == "none");
  CHECK_THAT(gives({with(node("ConstantOfShape", {"two"}, "s"), "value", whole_numbers("", {7, 8})),
                    node("Gather", {"s", "zero"}, "r")},
                   7, numbers),
             Contains("its value is no number"));
  CHECK(gives({with(node("Constant", {}, "c"), "value_int", 5), node("Add", {"c", "two"}, "r")}, 7,
              numbers) == "none");
  CHECK(gives({with(node("Constant", {}, "c"), "value_ints", {4, 5}),
               node("Gather", {"c", "zero"}, "r")},
              4, numbers) == "none");
  CHECK(gives({with(node("Constant", {}, "c"), "value_float", 2.5f),
               cast(node("Cast", {"c"}, "r"), 7)},
              2, numbers) == "none");
  CHECK(gives({node("Unsqueeze", {"seven", "zero"}, "u"), node("Squeeze", {"u", "zero"}, "r")}, 7,
              numbers) == "none");
}

TEST_CASE("floating-point constants that are worked out are what they would be", "[onnx]") {
  const std::vector<Message> numbers = {floats("w", {3, 2}),
                                        number("nine", 9),
                                        number("two", 2),
                                        number("minus", -1.5f),
                                        numbers_of("c", {3}, {1, 2, 4}),
                                        whole_numbers("four", {4}),
                                        numbers_of("d", {2}, {1, 2})};
  const auto scale = [&](const std::vector<Message>& nodes) {
    std::vector<Message> all = nodes;
    all.push_back(node("Mul", {"x", "r"}, "n"));
    all.push_back(node("MatMul", {"n", "w"}, "y"));
    return imported(file_of(all, numbers, {-1, 3})).normalization.value().scale;
  };
  const auto of = [&](const std::string& operation, const std::string& a, const std::string& b) {
    return scale({node(operation, {a, b}, "r")});
  };
  using Scale = std::vector<float>;
  CHECK(of("Add", "nine", "two") == Scale{11, 11, 11});
  CHECK(of("Sub", "nine", "two") == Scale{7, 7, 7});
  CHECK(of("Mul", "nine", "two") == Scale{18, 18, 18});
  CHECK(of("Div", "nine", "two") == Scale{4.5f, 4.5f, 4.5f});
  CHECK(of("Pow", "nine", "two") == Scale{81, 81, 81});
  CHECK(of("Mod", "two", "nine") == Scale{2, 2, 2});
  CHECK(of("Add", "c", "two") == Scale{3, 4, 6});
  CHECK(of("Sub", "two", "c") == Scale{1, 0, -2});
  CHECK(of("Mul", "c", "c") == Scale{1, 4, 16});
  CHECK(of("Mul", "four", "c") == Scale{4, 8, 16});
  CHECK(of("Pow", "four", "four") == Scale{256, 256, 256});
  CHECK(scale({node("Sqrt", {"nine"}, "r")}) == Scale{3, 3, 3});
  CHECK(scale({with(node("Constant", {}, "r"), "value_float", 2.5f)}) == Scale{2.5f, 2.5f, 2.5f});
  CHECK_THAT(refusal(file_of({node("Add", {"c", "d"}, "r"), node("Mul", {"x", "r"}, "n"),
                              node("MatMul", {"n", "w"}, "y")},
                             numbers, {-1, 3})),
             Contains("it computes with constants of two shapes"));
}

TEST_CASE("shapes that no layer gives are refused", "[onnx]") {
  const std::vector<Message> shapes = {
      whole_numbers("flat", {0, -1}),        whole_numbers("all", {-1, 192}),
      whole_numbers("same", {-1, 3, 8, 8}),  whole_numbers("copied", {0, 3, -1, 8}),
      whole_numbers("other", {-1, 4, 6, 8}), whole_numbers("few", {-1, 191}),
      whole_numbers("three", {-1, 3, 64})};
  const auto of = [&](const std::string& shape) {
    return on_maps({node("Reshape", {"x", shape}, "s"), node("Flatten", {"s"}, "y")}, shapes);
  };
  for (const char* good : {"flat", "all", "same", "copied"}) {
    INFO(good);
    CHECK(imported(of(good)).model.layers.size() == 2);
  }
  for (const char* bad : {"other", "few", "three"}) {
    INFO(bad);
    CHECK_THAT(refusal(of(bad)), Contains("dlflow reshapes to (B,F) alone"));
  }
  CHECK_THAT(refusal(file_of({with(node("Flatten", {"x"}, "y"), "axis", 2)}, {}, {-1, 3, 8, 8})),
             Contains("flatten of dlflow leaves the batch alone"));
  CHECK_THAT(refusal(file_of({with(node("Transpose", {"x"}, "y"), "perm", {0, 2, 3, 1})}, {},
                             {-1, 3, 8, 8})),
             Contains("no layer that swaps dimensions"));
  CHECK_THAT(
      refusal(file_of({with(node("Unsqueeze", {"x"}, "y"), "axes", {1})}, {}, {-1, 3, 8, 8})),
      Contains("no layer that adds a dimension"));
  const std::vector<int64_t> square = {2, 2}, four = {1, 2, 3, 4};
  const std::vector<Message> constants = {floats("w", {2, 3}), whole_numbers("i", {1, 2}),
                                          floats("cube", {1, 2, 3}),
                                          Message()
                                              .add(1, std::span<const int64_t>(square))
                                              .add(2, uint64_t{7})
                                              .add(7, std::span<const int64_t>(four))
                                              .add(8, std::string_view("whole"))};
  const auto turned = [&](const std::string& constant) {
    return file_of({node("Transpose", {constant}, "t"), node("MatMul", {"x", "t"}, "y")}, constants,
                   {-1, 3});
  };
  CHECK(imported(turned("w")).model.layers[0].units == 2);
  CHECK_THAT(refusal(turned("i")), Contains("it is no transposed matrix"));
  CHECK_THAT(refusal(turned("cube")), Contains("it is no transposed matrix"));
  CHECK_THAT(refusal(turned("whole")), Contains("it is no transposed matrix"));
}

TEST_CASE("the shape of a result is known but for the number of samples", "[onnx]") {
  const std::vector<Message> constants = {whole_numbers("zero", {0}), whole_numbers("one", {1}),
                                          whole_numbers("open", {-1})};
  const auto flattened = [&](const std::vector<Message>& sizes) {
    std::vector<Message> all = {node("Shape", {"x"}, "all")};
    all.insert(all.end(), sizes.begin(), sizes.end());
    all.push_back(with(node("Concat", {"b", "open"}, "shape"), "axis", 0));
    all.push_back(node("Reshape", {"x", "shape"}, "y"));
    return on_maps(all, constants);
  };
  CHECK(refusal(flattened({node("Gather", {"all", "zero"}, "b")})) == "none");
  CHECK(refusal(flattened({node("Slice", {"all", "zero", "one"}, "b")})) == "none");
  CHECK(refusal(flattened({with(with(node("Shape", {"x"}, "b"), "start", 0), "end", 1)})) ==
        "none");
  CHECK(refusal(flattened({with(node("Shape", {"x"}, "b"), "end", -3)})) == "none");
  CHECK_THAT(refusal(flattened({node("Gather", {"all", "zero"}, "n"), node("Sqrt", {"n"}, "b")})),
             Contains("it computes with the number of samples"));
}

TEST_CASE("names are those of the file, as far as they are free and a model file can say them",
          "[onnx]") {
  const auto name_of = [](const std::string& weights) {
    const std::string file =
        file_of({node("MatMul", {"x", weights}, "a"), node("Relu", {"a"}, "y")},
                {floats(weights, {3, 2})}, {-1, 3});
    return imported(file).model.layers[0].name;
  };
  CHECK(name_of("fc.weight") == "fc");
  CHECK(name_of("a.b c.weight") == "a.b_c");
  CHECK(name_of("..weight") == "linear1");
  CHECK(name_of("onnx::MatMul_7") == "linear1");
  CHECK(name_of("input.weight") == "input_2");
  const std::string twice = file_of(
      {node("MatMul", {"x", "a.weight"}, "a"), node("MatMul", {"a", "a/weight"}, "b"),
       node("MatMul", {"b", "linear1.weight"}, "y")},
      {floats("a.weight", {3, 4}), floats("a/weight", {4, 4}), floats("linear1.weight", {4, 2})},
      {-1, 3});
  const Model model = imported(twice).model;
  CHECK(model.layers[0].name == "a");
  CHECK(model.layers[1].name == "linear1");
  CHECK(model.layers[2].name == "linear1_2");
}
