#include <cmath>

#include "tests/support/catch.h"
#include "tests/unit/runtime/onnx/around_nodes.h"

/// Tests which layer each operation of a file becomes, and which operations are refused.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using Catch::StartsWith;
using test::file_of;
using test::floats;
using test::imported;
using test::node;
using test::number;
using test::numbers_of;
using test::on_maps;
using test::on_sequences;
using test::OnFeatures;
using test::OnMaps;
using test::refusal;
using test::whole_numbers;
using test::with;

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
    CHECK_THAT(of.refused(node("Clip", inputs, "y")),
               Contains("with bounds, dlflow has only relu and relu6"));
  }
  CHECK_THAT(of.refused(node("Clip", {"l", "two"}, "y")), Contains("its bounds are not numbers"));
  const OnFeatures old{{}, 9};
  CHECK(old.layer(with(with(node("Clip", {"l"}, "y"), "min", 0.0f), "max", 6.0f)).kind ==
        LayerKind::Relu6);
  CHECK_THAT(old.refused(with(node("Clip", {"l"}, "y"), "min", "x")),
             Contains("its attribute 'min' is not a number"));
}

TEST_CASE("activations are read only in dlflow's form", "[onnx]") {
  const OnFeatures of;
  const Message leaky = node("LeakyRelu", {"l"}, "y");
  CHECK(of.layer(leaky).slope == Approx(0.01));
  CHECK(of.layer(with(leaky, "alpha", 0.0f)).slope == 0);
  CHECK_THAT(of.refused(with(leaky, "alpha", 1.0f)), Contains("its slope is not from 0"));
  CHECK_THAT(of.refused(with(leaky, "alpha", -0.1f)), Contains("its slope is not from 0"));
  CHECK(of.layer(node("Gelu", {"l"}, "y")).kind == LayerKind::Gelu);
  CHECK_THAT(of.refused(with(node("Gelu", {"l"}, "y"), "approximate", "tanh")),
             Contains("not the approximation by tanh"));
  CHECK_THAT(of.refused(with(node("Gelu", {"l"}, "y"), "approximate", 1)),
             Contains("its attribute 'approximate' is not a text"));
}

TEST_CASE("an unknown layer made of several operators is refused by one of their names", "[onnx]") {
  const OnFeatures of{{number("two", 2), floats("four", {4}), whole_numbers("axis", {1}),
                       whole_numbers("heads", {-1, 6, 2, 2}), whole_numbers("pairs", {12, -1})}};
  for (const char* operation : {"Erf", "Sqrt", "Reciprocal", "Neg", "ReduceSum", "IsNaN"}) {
    CHECK_THAT(of.refused(node(operation, {"l"}, "y")),
               StartsWith("node 'y' (" + std::string(operation) + "): dlflow has no layer for it"));
  }
  for (const char* operation : {"Pow", "Less", "Equal", "Mod", "Expand"}) {
    CHECK_THAT(of.refused(node(operation, {"l", "two"}, "y")), Contains("no layer for it"));
  }
  CHECK_THAT(of.refused(node("Mul", {"l", "l"}, "y")), Contains("'y' (Mul)"));
  CHECK_THAT(of.refused(node("Mul", {"l", "two"}, "y")), Contains("'y' (Mul)"));
  CHECK_THAT(of.refused(node("Div", {"l", "l"}, "y")), Contains("'y' (Div)"));
  CHECK_THAT(of.refused(node("Sub", {"l", "l"}, "y")), Contains("'y' (Sub)"));
  CHECK_THAT(of.refused(with(node("ReduceMean", {"l"}, "y"), "axes", std::vector<int64_t>{-1})),
             Contains("'y' (ReduceMean)"));
  const auto sequence = [&](const Message& operation) {
    return refusal(on_sequences({operation}, of.constants));
  };
  for (const char* operation : {"Slice", "Split", "Where", "Trilu"}) {
    CHECK_THAT(sequence(node(operation, {"e", "axis"}, "y")), Contains("no layer for it"));
  }
  CHECK_THAT(sequence(node("MatMul", {"e", "e"}, "y")), Contains("attention is not read"));
  CHECK_THAT(sequence(node("Gather", {"e", "axis"}, "y")), Contains("'y' (Gather)"));
  CHECK_THAT(sequence(with(node("Transpose", {"e"}, "y"), "perm", {0, 2, 1})),
             Contains("'y' (Transpose)"));
  CHECK_THAT(sequence(node("Unsqueeze", {"e", "axis"}, "y")), Contains("'y' (Unsqueeze)"));
  CHECK_THAT(sequence(node("Squeeze", {"e", "axis"}, "y")), Contains("'y' (Squeeze)"));
  CHECK_THAT(sequence(node("Mul", {"e", "four"}, "y")), Contains("'y' (Mul)"));
  for (const char* shape : {"heads", "pairs"}) {
    CHECK_THAT(sequence(node("Reshape", {"e", shape}, "y")), Contains("'y' (Reshape)"));
  }
}

TEST_CASE("Cast keeps whole numbers whole, and others unchanged", "[onnx]") {
  const OnFeatures of{{floats("four", {4}), whole_numbers("sizes", {-1, 4})}};
  const auto cast = [](const char* from, const char* to, int type) {
    return with(node("Cast", {from}, to), "to", type);
  };
  constexpr int kFloat = 1, kInt64 = 7, kBool = 9, kFloat16 = 10;
  for (const int type : {kFloat, kFloat16}) {
    CHECK(imported(of.file({cast("l", "c", type), node("Relu", {"c"}, "y")})).model.layers.size() ==
          2);
  }
  for (const int type : {kInt64, kBool}) {
    CHECK_THAT(of.refused(cast("l", "y", type)),
               Contains("it converts a result to another kind of number"));
  }
  const auto bias = [&](int type) {
    return refusal(of.file({cast("four", "c", type), node("Add", {"l", "c"}, "y")}));
  };
  CHECK(bias(kFloat) == "none");
  CHECK_THAT(bias(kInt64), Contains("it converts a constant to another kind of number"));
  const auto shape = [&](int type) {
    return refusal(of.file({cast("sizes", "c", type), node("Reshape", {"l", "c"}, "y")}));
  };
  CHECK(shape(kInt64) == "none");
  CHECK_THAT(shape(kFloat), Contains("it converts a constant to another kind of number"));
}

TEST_CASE("a product of a value and its sigmoid is SiLU if nothing else reads the sigmoid",
          "[onnx]") {
  const OnFeatures of;
  const Message sigmoid = node("Sigmoid", {"l"}, "s");
  CHECK(imported(of.file({sigmoid, node("Mul", {"l", "s"}, "y")})).model.layers.at(1).kind ==
        LayerKind::Silu);
  CHECK(imported(of.file({sigmoid, node("Mul", {"s", "l"}, "y")})).model.layers.at(1).kind ==
        LayerKind::Silu);
  const std::string refused = "only in silu";
  CHECK_THAT(
      refusal(of.file({sigmoid, node("Mul", {"l", "s"}, "m"), node("Add", {"m", "s"}, "y")})),
      Contains(refused));
  CHECK_THAT(refusal(of.file({node("Tanh", {"l"}, "s"), node("Mul", {"l", "s"}, "y")})),
             Contains(refused));
  CHECK_THAT(refusal(of.file({node("Relu", {"l"}, "r"), node("Sigmoid", {"r"}, "s"),
                              node("Mul", {"l", "s"}, "y")})),
             Contains(refused));
}

TEST_CASE("softmax is along the last dimension, given by either index", "[onnx]") {
  const auto layers = [](const std::string& file) { return imported(file).model.layers.size(); };
  const OnFeatures of, old{{}, 11};
  const Message relu = node("Relu", {"s"}, "y"), softmax = node("Softmax", {"l"}, "s");
  for (const int axis : {-1, 1}) CHECK(layers(of.file({with(softmax, "axis", axis), relu})) == 3);
  CHECK(layers(of.file({softmax, relu})) == 3);
  CHECK(layers(old.file({softmax, relu})) == 3);
  CHECK_THAT(refusal(of.file({with(softmax, "axis", 0), relu})), Contains("along the last"));
  const Message of_sequence = node("Softmax", {"e"}, "y");
  CHECK(imported(on_sequences({of_sequence})).model.layers.size() == 1);  // the loss contains it
  CHECK_THAT(refusal(on_sequences({with(of_sequence, "axis", 1)})), Contains("along the last"));
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
  const std::string dimensions = "dlflow has only convolutions in two dimensions";
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
             Contains("its weights are for 4 channels, but it gets (B,3,8,8)"));
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

TEST_CASE("a normalisation has a weight and a bias for each channel or feature", "[onnx]") {
  const std::vector<Message> constants = {floats("three", {3}), floats("four", {4}),
                                          floats("five", {5}), floats("row", {1, 4}),
                                          floats("one", {1})};
  const OnFeatures features{constants};
  const auto layer_norm = [](const std::vector<std::string>& inputs) {
    return node("LayerNormalization", inputs, "y");
  };
  CHECK(features.layer(layer_norm({"l", "four", "four"})).bias);
  CHECK_FALSE(features.layer(layer_norm({"l", "four"})).bias);
  for (const char* weights : {"three", "five", "row"}) {
    CHECK_THAT(features.refused(layer_norm({"l", weights, "four"})),
               Contains("its weights are not those of 4 channels"));
    CHECK_THAT(features.refused(layer_norm({"l", "four", weights})),
               Contains("its weights are not those of 4 channels"));
  }
  CHECK_THAT(features.refused(layer_norm({"l"})), Contains("its input 2 is missing"));
  const Message rms_norm = node("RMSNormalization", {"l", "four"}, "y");
  CHECK(features.layer(rms_norm).kind == LayerKind::RmsNorm);
  CHECK_THAT(features.refused(with(rms_norm, "epsilon", 1e-3f)),
             Contains("its epsilon is 0.001; that of dlflow's layers is 1e-5"));
  CHECK_THAT(features.refused(with(rms_norm, "axis", 0)),
             Contains("dlflow's rms_norm works only along"));
  CHECK(features.layer(with(layer_norm({"l", "four"}), "axis", 1)).kind == LayerKind::LayerNorm);
  CHECK_THAT(features.refused(with(layer_norm({"l", "four"}), "axis", 0)),
             Contains("dlflow's layer_norm works only along the last dimension"));
  const Message batch_norm = node("BatchNormalization", {"l", "four", "four", "four", "four"}, "y");
  CHECK(imported(features.file({batch_norm})).notes.empty());
  CHECK_THAT(features.refused(with(batch_norm, "training_mode", 1)),
             Contains("it is in training mode"));
  const OnMaps maps{constants};
  CHECK(maps.layer(node("InstanceNormalization", {"x", "three", "three"}, "m")).groups == 3);
  CHECK_THAT(maps.refused(node("InstanceNormalization", {"x", "three", "four"}, "m")),
             Contains("its weights are not those of 3 channels"));
  const auto group_norm = [](const char* weights) {
    return with(node("GroupNormalization", {"x", weights, "three"}, "m"), "num_groups", 1);
  };
  CHECK(maps.layer(group_norm("three")).groups == 1);
  CHECK_THAT(maps.refused(group_norm("one")), Contains("not those of 3 channels"));  // below 21
}

TEST_CASE("maps of one pixel become features without their spatial dimensions", "[onnx]") {
  const auto squeezed = [](const std::vector<int64_t>& input, const std::vector<int64_t>& axes) {
    return on_maps({node("Squeeze", {"x", "axes"}, "y")}, {whole_numbers("axes", axes)}, input);
  };
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2, 3}, {3, 2}, {-2, -1}, {-1, 2}}) {
    CHECK(imported(squeezed({-1, 3, 1, 1}, axes)).model.layers.at(1).shape == TensorShape{3});
  }
  const std::string refused = "no layer that gives this shape";
  CHECK_THAT(refusal(squeezed({-1, 3, 1, 2}, {2, 3})), Contains(refused));
  CHECK_THAT(refusal(squeezed({-1, 3, 2, 1}, {2, 3})), Contains(refused));
  CHECK_THAT(refusal(squeezed({-1, 3, 1, 1}, {2})), Contains(refused));
  CHECK_THAT(refusal(squeezed({-1, 1, 1, 1}, {1, 2, 3})), Contains(refused));
}

TEST_CASE("Gemm may have factors, transposed weights and a bias", "[onnx]") {
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
    return all;  // the bias comes before the weight
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
             Contains("its third input is not a bias"));
  CHECK_THAT(refusal(of(with(node("Gemm", {"x", "b"}, "y"), "transB", 1))),
             Contains("its weights are not a matrix"));
  CHECK_THAT(refusal(file_of({plain}, constants, {-1, 3, 8, 8})), Contains("not (B,F)"));
}

TEST_CASE("a constant may be the first or second operand of a sum or product", "[onnx]") {
  const OnFeatures of{{floats("b", {4}), floats("row", {1, 4}), floats("five", {5}),
                       whole_numbers("whole", {1, 2, 3, 4})}};
  for (const char* constant : {"b", "row"}) {
    const ImportedNetwork behind = imported(of.file({node("Add", {"l", constant}, "y")}));
    const ImportedNetwork before = imported(of.file({node("Add", {constant, "l"}, "y")}));
    CHECK(behind.model.layers.size() == 1);
    CHECK(behind.model.layers[0].bias);
    CHECK(before.model.layers == behind.model.layers);
  }
  CHECK_THAT(refusal(of.file({node("Add", {"l", "b"}, "s"), node("Add", {"s", "b"}, "y")})),
             Contains("'y' (Add): dlflow has no layer that computes with such a constant"));
  for (const char* constant : {"five", "whole"}) {
    CHECK_THAT(of.refused(node("Add", {"l", constant}, "y")),
               Contains("computes with such a constant"));
  }
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
             Contains("read both unscaled and scaled"));
  CHECK_THAT(refused({scaled, shifted, node("Add", {"n", "s"}, "y")}), Contains("with two scales"));
}

TEST_CASE("add takes two results of one shape, one from the layer before it", "[onnx]") {
  const OnFeatures of{{floats("v", {4, 3}), floats("u", {4, 4})}};
  const Message relu = node("Relu", {"l"}, "r");
  CHECK(imported(of.file({relu, node("Add", {"l", "r"}, "y")})).model.layers[2].inputs ==
        std::vector<int>{1, 0});
  CHECK(imported(of.file({relu, node("Add", {"r", "l"}, "y")})).model.layers[2].inputs ==
        std::vector<int>{1, 0});
  CHECK_THAT(refusal(of.file({node("MatMul", {"l", "v"}, "s"), node("Add", {"l", "s"}, "y")})),
             Contains("two equal shapes, but this one gets (B,4) and (B,3)"));
  CHECK_THAT(refusal(of.file({relu, node("Tanh", {"l"}, "t"), node("Add", {"l", "r"}, "s"),
                              node("Add", {"s", "t"}, "y")})),
             Contains("it adds the results of two earlier layers"));
}

TEST_CASE("a table of positions has one row per position", "[onnx]") {
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
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6, 4}, {1, 4, 4}}) {
    CHECK_THAT(OnFeatures({floats("p", shape)}).refused(node("Add", {"l", "p"}, "y")),
               Contains("computes with such a constant"));
  }
}

TEST_CASE("layers keep the file's names if these are unused and valid in a model file", "[onnx]") {
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
  CHECK(name_of("azAZ09_.weight") == "azAZ09_");
  CHECK(name_of("a{b|c}d~e`f.weight") == "a_b_c_d_e_f");
  CHECK(name_of("a@b[c^d;e?f.weight") == "a_b_c_d_e_f");
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
