#include "tests/support/catch.h"
#include "tests/unit/runtime/onnx/around_nodes.h"

/// Constants and shapes that a file works out by nodes.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::file_of;
using test::floats;
using test::imported;
using test::node;
using test::number;
using test::numbers_of;
using test::on_maps;
using test::refusal;
using test::whole_numbers;
using test::with;

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
  for (const char* operation : {"Div", "Mod"}) {
    CHECK(gives({node(operation, {"zero", "two"}, "z"), node("Add", {"z", "seven"}, "r")}, 7,
                numbers) == "none");
  }
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

TEST_CASE("a part of a constant is that of a list", "[onnx]") {
  const std::vector<Message> constants = {
      floats("w", {3, 2}),           floats("list", {4}),           floats("u", {4, 2}),
      whole_numbers("zero", {0}),    whole_numbers("three", {3}),   whole_numbers("twice", {0, 0}),
      whole_numbers("ends", {3, 3}), whole_numbers("shape", {3, 1})};
  const auto of = [&](const std::vector<std::string>& inputs) {
    return refusal(file_of(
        {node("Slice", inputs, "s"), node("Mul", {"x", "s"}, "n"), node("MatMul", {"n", "w"}, "y")},
        constants, {-1, 3}));
  };
  CHECK(of({"list", "zero", "three"}) == "none");
  CHECK(of({"list", "zero", "three", "zero"}) == "none");
  const std::string refused = "it takes parts of a constant that is no list";
  for (const std::vector<std::string>& inputs : {std::vector<std::string>{"u", "zero", "three"},
                                                 {"list", "twice", "three"},
                                                 {"list", "zero", "ends"},
                                                 {"list", "zero", "three", "three"}}) {
    CHECK_THAT(of(inputs), Contains(refused));
  }
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
  const auto ordered = [&](const std::vector<int64_t>& order) {
    return refusal(file_of(
        {with(node("Transpose", {"w"}, "t"), "perm", order), node("MatMul", {"x", "t"}, "y")},
        constants, {-1, 3}));
  };
  CHECK(ordered({1, 0}) == "none");
  CHECK_THAT(ordered({0, 1}), Contains("it is no transposed matrix"));
  CHECK_THAT(refusal(turned("i")), Contains("it is no transposed matrix"));
  CHECK_THAT(refusal(turned("cube")), Contains("it is no transposed matrix"));
  CHECK_THAT(refusal(turned("whole")), Contains("it is no transposed matrix"));
}

TEST_CASE("a constant gets a shape of as many numbers", "[onnx]") {
  const auto of = [](const std::vector<int64_t>& sizes) {
    return refusal(file_of({node("Reshape", {"w", "sizes"}, "t"), node("MatMul", {"x", "t"}, "y")},
                           {floats("w", {2, 3}), whole_numbers("sizes", sizes)}, {-1, 3}));
  };
  CHECK(of({3, 2}) == "none");
  for (const std::vector<int64_t>& open : {std::vector<int64_t>{3, -1}, {-1, -1}, {0, 2}, {4, 2}}) {
    CHECK_THAT(of(open), Contains("it finds the shape of a constant"));
  }
  CHECK_THAT(of({3, 1}), Contains("another number of constants than its shape"));
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
  CHECK_THROWS_WITH(layers({1, -1}), Contains("no layer that gives 'y'"));
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

TEST_CASE("of two single numbers the result has the more dimensions", "[onnx]") {
  const auto scalar = [](const char* name) {
    const std::vector<int64_t> zero = {0};
    return Message().add(2, uint64_t{7}).add(7, std::span(zero)).add(8, std::string_view(name));
  };
  const std::vector<Message> constants = {scalar("scalar"), whole_numbers("list", {0})};
  /// A chosen position: without its dimension for a number, with it for a list.
  const auto chosen = [&](const char* a, const char* b) {
    return refusal(test::on_sequences(
        {node("Add", {a, b}, "i"), with(node("Gather", {"e", "i"}, "p"), "axis", 1),
         with(node("Transpose", {"p"}, "y"), "perm", {0, 1, 2})},
        constants));
  };
  const std::string wrong = "another number of dimensions";
  CHECK_THAT(chosen("scalar", "scalar"), Contains(wrong));
  for (const auto& [a, b] : {std::pair("scalar", "list"), {"list", "scalar"}, {"list", "list"}}) {
    CHECK_THAT(chosen(a, b), !Contains(wrong));
  }
}
