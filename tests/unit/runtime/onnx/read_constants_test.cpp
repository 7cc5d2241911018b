#include "tests/support/catch.h"
#include "tests/unit/runtime/onnx/around_nodes.h"

/// Tests constants and shapes that a file computes by nodes.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::file_of;
using test::floats;
using test::imported;
using test::node;
using test::numbers_of;
using test::on_maps;
using test::refusal;
using test::whole_numbers;
using test::with;

TEST_CASE("sizes that a file computes are evaluated", "[onnx]") {
  /// Whether `nodes` compute 'r', a size in a shape, as the whole number 6.
  const auto gives = [](const std::vector<Message>& nodes) {
    std::vector<Message> all = nodes;
    all.push_back(with(node("Concat", {"batch", "r"}, "shape"), "axis", 0));
    all.push_back(node("Reshape", {"x", "shape"}, "y"));
    const std::vector<Message> constants = {
        whole_numbers("batch", {-1}),   whole_numbers("two", {2}),  whole_numbers("zero", {0}),
        whole_numbers("minus", {-1}),   whole_numbers("five", {5}), whole_numbers("list", {2, 3}),
        numbers_of("half", {1}, {0.5f})};
    return refusal(on_maps(all, constants, {-1, 6, 1, 1}));
  };
  const Message sizes = node("Shape", {"x"}, "s"), one = node("Gather", {"s", "two"}, "one");
  CHECK(gives({sizes, one, node("Gather", {"s", "minus"}, "also"),
               with(node("Constant", {}, "six"), "value_int", 6), node("Mul", {"one", "six"}, "p"),
               node("Mul", {"p", "also"}, "r")}) == "none");
  CHECK(gives({with(node("Constant", {}, "c"), "value_ints", {6, 5}),
               node("Gather", {"c", "zero"}, "r")}) == "none");
  CHECK(gives({with(node("Constant", {}, "c"), "value_int", 6),
               node("Unsqueeze", {"c", "zero"}, "u"), node("Squeeze", {"u", "zero"}, "r")}) ==
        "none");
  CHECK_THAT(gives({node("Mul", {"two", "two"}, "r")}), Contains("dlflow reshapes only to (B,F)"));
  CHECK_THAT(gives({node("Gather", {"list", "five"}, "r")}), Contains("outside of the list"));
  const std::string refused = "'r' (Mul): it multiplies constants that are not two sizes";
  CHECK_THAT(gives({sizes, node("Gather", {"s", "zero"}, "b"), node("Mul", {"b", "two"}, "r")}),
             Contains(refused));
  CHECK_THAT(gives({node("Mul", {"minus", "two"}, "r")}), Contains(refused));
  CHECK_THAT(gives({node("Mul", {"list", "two"}, "r")}), Contains(refused));
  CHECK_THAT(gives({node("Mul", {"half", "two"}, "r")}), Contains("are not whole numbers"));
  CHECK_THAT(gives({node("Unsqueeze", {"half", "zero"}, "r")}), Contains("are not whole numbers"));
  for (const char* operation : {"Add", "Sub", "Div"}) {
    CHECK_THAT(gives({node(operation, {"five", "two"}, "r")}),
               Contains("computes with such a constant"));
  }
}

TEST_CASE("a floating-point constant may be the result of a node", "[onnx]") {
  const ImportedNetwork network =
      imported(file_of({with(node("Constant", {}, "r"), "value_float", 2.5f),
                        node("Mul", {"x", "r"}, "n"), node("MatMul", {"n", "w"}, "y")},
                       {floats("w", {3, 2})}, {-1, 3}));
  CHECK(network.normalization.value().scale == std::vector<float>{2.5f, 2.5f, 2.5f});
}

TEST_CASE("shapes that no layer gives are refused", "[onnx]") {
  const std::vector<Message> shapes = {
      whole_numbers("flat", {0, -1}),        whole_numbers("all", {-1, 192}),
      whole_numbers("same", {-1, 3, 8, 8}),  whole_numbers("copied", {0, 3, -1, 8}),
      whole_numbers("other", {-1, 4, 6, 8}), whole_numbers("few", {-1, 191}),
      whole_numbers("three", {-1, 3, 64}),   whole_numbers("two_open", {-1, 3, -1, 8})};
  const auto of = [&](const std::string& shape) {
    return on_maps({node("Reshape", {"x", shape}, "s"), node("Flatten", {"s"}, "y")}, shapes);
  };
  for (const char* good : {"flat", "all", "same", "copied"}) {
    INFO(good);
    CHECK(imported(of(good)).model.layers.size() == 2);
  }
  for (const char* bad : {"other", "few", "three", "two_open"}) {
    INFO(bad);
    CHECK_THAT(refusal(of(bad)), Contains("dlflow reshapes only to (B,F)"));
  }
  CHECK_THAT(refusal(file_of({with(node("Flatten", {"x"}, "y"), "axis", 2)}, {}, {-1, 3, 8, 8})),
             Contains("dlflow's flatten keeps the batch dimension"));
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
  const auto ordered = [&](const std::vector<int64_t>& order) {
    return refusal(file_of(
        {with(node("Transpose", {"w"}, "t"), "perm", order), node("MatMul", {"x", "t"}, "y")},
        constants, {-1, 3}));
  };
  CHECK(ordered({1, 0}) == "none");
  CHECK_THAT(ordered({0, 1}), Contains("it is not a transposed matrix"));
  CHECK_THAT(refusal(turned("i")), Contains("it is not a transposed matrix"));
  CHECK_THAT(refusal(turned("cube")), Contains("it is not a transposed matrix"));
  CHECK_THAT(refusal(turned("whole")), Contains("it is not a transposed matrix"));
}

TEST_CASE("a constant can be reshaped if the number of its values stays", "[onnx]") {
  const auto of = [](const std::vector<int64_t>& sizes) {
    return refusal(file_of({node("Reshape", {"w", "sizes"}, "t"), node("MatMul", {"x", "t"}, "y")},
                           {floats("w", {2, 3}), whole_numbers("sizes", sizes)}, {-1, 3}));
  };
  CHECK(of({3, 2}) == "none");
  for (const std::vector<int64_t>& open : {std::vector<int64_t>{3, -1}, {-1, -1}, {0, 2}, {4, 2}}) {
    CHECK_THAT(of(open), Contains("it leaves the shape of a constant open"));
  }
  CHECK_THAT(of({3, 1}), Contains("does not have as many numbers as its shape"));
}

TEST_CASE("sequences become features for any number of samples", "[onnx]") {
  const auto layers = [](const std::vector<int64_t>& sizes) {
    return imported(test::on_sequences({node("Reshape", {"e", "sizes"}, "y")},
                                       {whole_numbers("sizes", sizes)}))
        .model.layers;
  };
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0, -1}, {-1, 24}, {0, 24}}) {
    REQUIRE(layers(sizes).size() == 2);
    CHECK(layers(sizes)[1].kind == LayerKind::Flatten);
  }
  CHECK_THROWS_WITH(layers({1, -1}), Contains("dlflow reshapes only to (B,F)"));
  CHECK_THROWS_WITH(layers({2, -1, 4}), Contains("dlflow reshapes only to (B,F)"));
}

TEST_CASE("the shape of a result is known but for the number of samples", "[onnx]") {
  const std::vector<Message> constants = {whole_numbers("zero", {0}), whole_numbers("open", {-1})};
  const auto flattened = [&](const std::vector<Message>& sizes) {
    std::vector<Message> all = {node("Shape", {"x"}, "all")};
    all.insert(all.end(), sizes.begin(), sizes.end());
    all.push_back(with(node("Concat", {"b", "open"}, "shape"), "axis", 0));
    all.push_back(node("Reshape", {"x", "shape"}, "y"));
    return on_maps(all, constants);
  };
  CHECK(refusal(flattened({node("Gather", {"all", "zero"}, "b")})) == "none");
  CHECK(refusal(flattened({with(with(node("Shape", {"x"}, "b"), "start", 0), "end", 1)})) ==
        "none");
  CHECK(refusal(flattened({with(node("Shape", {"x"}, "b"), "end", -3)})) == "none");
}
