#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/onnx_message.h"
#include "tests/unit/runtime/onnx/onnx_graph.h"

/// Attention as files put it together, with masks, rotary positions and heads in other orders.
using namespace dlflow;
using namespace dlflow::runtime;
using Catch::Contains;
using test::floats;
using test::imported;
using test::node;
using test::numbers_of;
using test::refusal;
using test::whole_numbers;
using test::with;

namespace {

using Nodes = std::vector<Message>;

constexpr int64_t kPositions = 6, kSize = 4;

std::vector<float> table(int64_t columns, double (*function)(double)) {
  std::vector<float> all;
  for (int64_t t = 0; t < kPositions; ++t) {
    for (int64_t i = 0; i < columns; ++i) {
      const double angle = double(t) * std::pow(10000.0, -double(i % 2) / 2);
      all.push_back(float(function(angle)));
    }
  }
  return all;
}

double cosine(double angle) { return std::cos(angle); }
double sine(double angle) { return std::sin(angle); }

/// (T,T), which is `later` where a position would look at a later one.
std::vector<float> causal(float later, float others = 0) {
  std::vector<float> mask;
  for (int64_t i = 0; i < kPositions; ++i) {
    for (int64_t j = 0; j < kPositions; ++j) mask.push_back(j > i ? later : others);
  }
  return mask;
}

/// Of tokens (B,6): an embedding of 8 features, and attention of two heads of three linear layers;
/// nodes that are given take the place of those that give the same, and may be several.
std::string file(const std::map<std::string, Nodes>& changed = {}) {
  const std::vector<std::pair<std::string, Message>> usual = {
      {"e", node("Gather", {"table", "x"}, "e")},
      {"q", node("MatMul", {"e", "wq"}, "q")},
      {"k", node("MatMul", {"e", "wk"}, "k")},
      {"v", node("MatMul", {"e", "wv"}, "v")},
      {"qh", node("Reshape", {"q", "heads"}, "qh")},
      {"kh", node("Reshape", {"k", "heads"}, "kh")},
      {"vh", node("Reshape", {"v", "heads"}, "vh")},
      {"qt", with(node("Transpose", {"qh"}, "qt"), "perm", {0, 2, 1, 3})},
      {"kk", with(node("Transpose", {"kh"}, "kk"), "perm", {0, 2, 1, 3})},
      {"vt", with(node("Transpose", {"vh"}, "vt"), "perm", {0, 2, 1, 3})},
      {"qr", node("Identity", {"qt"}, "qr")},
      {"kr", node("Identity", {"kk"}, "kr")},
      {"kt", with(node("Transpose", {"kr"}, "kt"), "perm", {0, 1, 3, 2})},
      {"p", node("MatMul", {"qr", "kt"}, "p")},
      {"d", node("Div", {"p", "two"}, "d")},
      {"s", node("Identity", {"d"}, "s")},
      {"h", node("Softmax", {"s"}, "h")},
      {"o", node("MatMul", {"h", "vt"}, "o")},
      {"ot", with(node("Transpose", {"o"}, "ot"), "perm", {0, 2, 1, 3})},
      {"f", node("Reshape", {"ot", "back"}, "f")},
      {"y", node("MatMul", {"f", "last"}, "y")}};
  Nodes all;
  for (const auto& [name, message] : usual) {
    const auto found = changed.find(name);
    if (found == changed.end()) {
      all.push_back(message);
    } else {
      all.insert(all.end(), found->second.begin(), found->second.end());
    }
  }
  std::vector<float> counting;
  for (int i = 0; i < 8 * 24; ++i) counting.push_back(float(i));
  std::vector<float> close = table(4, cosine);
  close[13] += 1e-3f;
  std::vector<float> first_row_close = table(4, cosine);
  first_row_close[0] += 1e-3f;
  std::vector<float> sees_all = causal(-INFINITY), sees_none = sees_all;
  for (size_t j = 0; j < size_t(kPositions); ++j) sees_all[j] = 0;
  for (size_t i = 1; i < size_t(kPositions); ++i) sees_none[i * size_t(kPositions)] = -INFINITY;
  return test::file_of(all,
                       {floats("table", {5, 8}),
                        floats("wq", {8, 8}),
                        floats("wk", {8, 8}),
                        floats("wv", {8, 8}),
                        floats("last", {8, 2}),
                        floats("mask", {6, 6}),
                        numbers_of("all", {8, 24}, counting),
                        numbers_of("cos", {6, 4}, table(4, cosine)),
                        numbers_of("sin", {6, 4}, table(4, sine)),
                        numbers_of("cos_half", {6, 2}, table(2, cosine)),
                        numbers_of("sin_half", {6, 2}, table(2, sine)),
                        numbers_of("close", {6, 4}, close),
                        numbers_of("first_row_close", {6, 4}, first_row_close),
                        numbers_of("later", {6, 6}, causal(-INFINITY)),
                        numbers_of("first_sees_all", {6, 6}, sees_all),
                        numbers_of("first_is_unseen", {6, 6}, sees_none),
                        numbers_of("later_4", {1, 1, 6, 6}, causal(-1e9f)),
                        numbers_of("not_later", {6, 6}, causal(0, -INFINITY)),
                        numbers_of("slightly", {6, 6}, causal(-9e3f)),
                        numbers_of("is_later", {6, 6}, causal(1)),
                        numbers_of("is_seen", {6, 6}, causal(0, 1)),
                        numbers_of("zeros", {6, 6}, causal(0)),
                        numbers_of("ones", {6, 6}, causal(1, 1)),
                        floats("short", {6, 5}),
                        floats("twice", {2, 6, 6}),
                        floats("thirds", {2, 3, 6}),
                        numbers_of("low", {}, {-INFINITY}),
                        numbers_of("just_low", {}, {-1e4f}),
                        numbers_of("none", {}, {0}),
                        numbers_of("mild", {}, {-1}),
                        whole_numbers("two", {2}),
                        whole_numbers("square", {6, 6}),
                        whole_numbers("zero", {0}),
                        whole_numbers("one", {1}),
                        whole_numbers("four", {4}),
                        whole_numbers("last_axis", {-1}),
                        whole_numbers("heads", {0, 0, 2, 4}),
                        whole_numbers("turned", {0, 2, -1, 4}),
                        whole_numbers("inner", {0, 0, 4, 2}),
                        whole_numbers("back", {0, -1, 8})},
                       {-1, kPositions});
}

Layer attention_of(const std::string& content) {
  for (const Layer& layer : imported(content).model.layers) {
    if (layer.kind == LayerKind::Attention) return layer;
  }
  throw Error(Errc::NotFound, "no attention");
}

/// Rotates the whole heads `from`, as files of LLaMA do; its result is `to`.
Nodes rotated(const std::string& from, const std::string& to, const std::string& cosines = "cos",
              const std::string& sines = "sin", const Message* swapped = nullptr) {
  const auto n = [&](const char* name) { return to + name; };
  return {
      node("Mul", {from, cosines}, n("c")),
      node("Slice", {from, "zero", "two", "last_axis"}, n("1")),
      node("Slice", {from, "two", "four", "last_axis"}, n("2")),
      node("Neg", {n("2")}, n("n")),
      swapped != nullptr ? *swapped : with(node("Concat", {n("n"), n("1")}, n("w")), "axis", -1),
      node("Mul", {n("w"), sines}, n("s")),
      node("Add", {n("c"), n("s")}, to)};
}

/// Half by half, as dlflow's files do; the nodes that join the halves are given.
Nodes rotated_halves(const std::string& from, const std::string& to, const Message& first,
                     const Message& second, const Message& joined) {
  const auto n = [&](const char* name) { return to + name; };
  return {node("Slice", {from, "zero", "two", "last_axis"}, n("a")),
          node("Slice", {from, "two", "four", "last_axis"}, n("b")),
          node("Mul", {n("a"), "cos_half"}, n("ac")),
          node("Mul", {n("b"), "sin_half"}, n("bs")),
          node("Mul", {n("b"), "cos_half"}, n("bc")),
          node("Mul", {n("a"), "sin_half"}, n("as")),
          first,
          second,
          joined};
}

Nodes rotated_halves(const std::string& from, const std::string& to) {
  return rotated_halves(from, to, node("Sub", {to + "ac", to + "bs"}, to + "first"),
                        node("Add", {to + "bc", to + "as"}, to + "second"),
                        with(node("Concat", {to + "first", to + "second"}, to), "axis", -1));
}

/// Keys that are turned by one node, from rows of heads to columns.
std::pair<const std::string, Nodes> keys_at_once() {
  return {"kt", {with(node("Transpose", {"kh"}, "kt"), "perm", {0, 2, 3, 1})}};
}

}  // namespace

TEST_CASE("linear layers of queries, keys and values become one", "[onnx]") {
  const ImportedNetwork network = imported(file({keys_at_once()}));
  REQUIRE(network.model.layers.size() == 4);
  CHECK(network.model.layers[1].units == 24);
  CHECK(network.model.layers[2].kind == LayerKind::Attention);
  CHECK(network.model.layers[2].heads == 2);
  CHECK_FALSE(network.model.layers[2].causal);
}

TEST_CASE("what is not dlflow's attention is refused by the node that differs", "[onnx]") {
  const auto of = [](const std::string& name, const Message& changed) {
    std::map<std::string, Nodes> nodes = {keys_at_once()};
    nodes[name] = {changed};
    return refusal(file(nodes));
  };
  CHECK_THAT(
      of("d", node("Mul", {"p", "two"}, "d")),
      Catch::Contains("'o' (MatMul): its scores are multiplied with 2, not 1/sqrt(4) = 0.5"));
  CHECK_THAT(of("h", with(node("Softmax", {"d"}, "h"), "unused", std::vector<int64_t>{})),
             Catch::Equals("none"));
  CHECK_THAT(of("h", node("Relu", {"d"}, "h")), Catch::Contains("'h' (Relu): dlflow has no layer"));
  CHECK_THAT(of("d", node("Add", {"p", "mask"}, "d")),
             Catch::Contains("'d' (Add): its mask adds numbers to scores"));
  CHECK_THAT(of("qh", node("Reshape", {"q", "turned"}, "qh")),
             Catch::Contains("queries, keys and values have different heads"));
  CHECK_THAT(of("qt", with(node("Transpose", {"qh"}, "qt"), "perm", {0, 1, 2, 3})),
             Catch::Contains("queries, keys and values have different heads"));
  CHECK_THAT(of("kt", with(node("Transpose", {"kh"}, "kt"), "perm", {0, 2, 1, 3})),
             Catch::Contains("its keys are not those of all positions"));
  CHECK_THAT(of("vh", node("Reshape", {"q", "heads"}, "vh")),
             Catch::Contains("it reads the same queries twice"));
  CHECK_THAT(of("v", node("MatMul", {"q", "wv"}, "v")),
             Catch::Contains("nor of linear layers that read the same"));
  CHECK_THAT(of("y", node("Add", {"f", "k"}, "y")),
             Catch::Contains("'y' (Add): dlflow has no layer"));
  CHECK_THAT(of("qt", with(node("Transpose", {"qh"}, "qt"), "perm", {0, 2, 1})),
             Catch::Contains("it orders another number of dimensions"));
  CHECK_THAT(of("qt", with(node("Transpose", {"qh"}, "qt"), "perm", {0, 7, 1, 3})),
             Catch::Contains("its order is not one of the dimensions"));
  CHECK_THAT(of("qh", node("Reshape", {"q", "back"}, "qh")),
             Catch::Contains("it orders another number of dimensions"));
}

TEST_CASE("queries of one number for each sample are no matrices", "[onnx]") {
  const Nodes numbers = {with(node("Gather", {"e", "zero"}, "p1"), "axis", 1),
                         node("Squeeze", {"p1", "one"}, "p2"),
                         with(node("Gather", {"p2", "zero"}, "p3"), "axis", 1),
                         node("Squeeze", {"p3", "one"}, "p4"), node("MatMul", {"p4", "kt"}, "p")};
  CHECK_THAT(refusal(file({{"p", numbers}})), Contains("its queries or keys are no matrices"));
}

TEST_CASE("queries, keys and scores may each have a part of the scale", "[onnx]") {
  const Nodes queries = {node("Div", {"qt", "two"}, "qr")},
              keys = {node("Div", {"kk", "two"}, "kr")}, plain = {node("Identity", {"p"}, "d")},
              doubled = {node("Mul", {"p", "two"}, "d")};
  CHECK(attention_of(file({{"qr", queries}, {"d", plain}})).heads == 2);
  CHECK(attention_of(file({{"kr", keys}, {"d", plain}})).heads == 2);
  CHECK(attention_of(file({{"qr", queries}, {"kr", keys}, {"d", doubled}})).heads == 2);
  CHECK_THAT(refusal(file({{"qr", queries}})),
             Contains("its scores are multiplied with 0.25, not 1/sqrt(4) = 0.5"));
  CHECK_THAT(refusal(file({{"qr", queries}, {"d", doubled}})), Contains("multiplied with 1, not"));
  const Nodes values = {node("Div", {"vt", "two"}, "w"), node("MatMul", {"h", "w"}, "o")};
  CHECK_THAT(refusal(file({{"o", values}})), Contains("its values are multiplied with a number"));
}

TEST_CASE("masks that leave out later positions are causal, however they are said", "[onnx]") {
  CHECK_FALSE(attention_of(file()).causal);
  const auto of = [](const Nodes& nodes) { return file({{"s", nodes}}); };
  const Nodes good[] = {
      {node("Add", {"d", "later"}, "s")},
      {node("Add", {"later_4", "d"}, "s")},
      {node("Add", {"d", "later"}, "t"), node("Mul", {"t", "one"}, "s")},
      {node("Where", {"is_later", "low", "d"}, "s")},
      {node("Where", {"is_seen", "d", "low"}, "s")},
      {node("Where", {"is_later", "just_low", "d"}, "s")},
      {with(node("Trilu", {"ones"}, "u"), "upper", 0), node("Where", {"u", "d", "low"}, "s")},
      {node("Expand", {"low", "square"}, "m"), node("Trilu", {"m", "one"}, "u"),
       node("Add", {"d", "u"}, "s")},
      {node("Expand", {"low", "square"}, "m"), node("Trilu", {"m", "one"}, "u"),
       node("Where", {"is_later", "u", "zeros"}, "t"), node("Add", {"d", "t"}, "s")}};
  for (const Nodes& nodes : good) CHECK(attention_of(of(nodes)).causal);
  for (const char* nothing : {"zeros", "none"}) {
    CHECK_FALSE(attention_of(of({node("Add", {"d", nothing}, "s")})).causal);
  }
  for (const char* mask : {"not_later", "first_sees_all", "first_is_unseen"}) {
    CHECK_THAT(refusal(of({node("Add", {"d", mask}, "s")})),
               Contains("its mask is not the causal one"));
  }
  CHECK_THAT(refusal(of({node("Where", {"is_seen", "low", "d"}, "s")})),
             Contains("its mask is not the causal one"));
  CHECK_THAT(refusal(of({node("Add", {"d", "slightly"}, "s")})),
             Contains("its mask adds numbers to scores"));
  for (const char* mask : {"short", "twice", "thirds", "low"}) {
    CHECK_THAT(refusal(of({node("Add", {"d", mask}, "s")})),
               Contains("its mask is not one of positions, (T,T)"));
  }
  CHECK_THAT(refusal(of({node("Where", {"is_later", "mild", "d"}, "s")})),
             Contains("its mask gives scores"));
  CHECK_THAT(refusal(of({node("Where", {"is_later", "later", "d"}, "s")})),
             Contains("its mask gives scores"));
  CHECK_THAT(refusal(of({node("Add", {"d", "later"}, "t"), node("Mul", {"t", "two"}, "s")})),
             Contains("it multiplies scores that have their mask already"));
  CHECK_THAT(refusal(file({{"y", {node("Where", {"is_later", "f", "low"}, "y")}}})),
             Contains("dlflow has it only as a mask of attention"));
}

TEST_CASE("shares that are no numbers are nowhere", "[onnx]") {
  const auto of = [](const std::string& others) {
    return file({{"h",
                  {node("Softmax", {"s"}, "h0"), node("Softmax", {"s"}, "h1"),
                   node("IsNaN", {"h0"}, "n"), node("Where", {"n", "none", others}, "h")}}});
  };
  CHECK(attention_of(of("h0")).heads == 2);
  CHECK_THAT(refusal(of("h1")), Contains("dlflow has it only as a mask of attention"));
  CHECK_THAT(refusal(file({{"y", {node("IsNaN", {"f"}, "y")}}})),
             Contains("dlflow has it only as a part of attention"));
}

TEST_CASE("heads are rotated as wholes or half by half, by dlflow's angles alone", "[onnx]") {
  const auto of = [](const Nodes& queries, const Nodes& keys) {
    return file({{"qr", queries}, {"kr", keys}});
  };
  const Nodes q = rotated("qt", "qr"), k = rotated("kk", "kr");
  CHECK(attention_of(of(q, k)).rotary);
  CHECK(attention_of(of(rotated_halves("qt", "qr"), rotated_halves("kk", "kr"))).rotary);
  CHECK(attention_of(of(q, rotated_halves("kk", "kr"))).rotary);
  CHECK_FALSE(attention_of(file()).rotary);
  const std::string whole = "than whole heads of queries and of keys";
  CHECK_THAT(refusal(file({{"qr", q}})), Contains(whole));
  CHECK_THAT(refusal(file({{"kr", k}})), Contains(whole));
  CHECK_THAT(
      refusal(file({{"qr", q},
                    {"kr", k},
                    {"o", {node("Identity", {"vt"}, "vv"), node("MatMul", {"h", "vv"}, "o")}}})),
      Catch::Equals("none"));
  Nodes values = rotated("vt", "vr");
  values.push_back(node("MatMul", {"h", "vr"}, "o"));
  CHECK_THAT(refusal(file({{"qr", q}, {"kr", k}, {"o", values}})), Contains(whole));

  Nodes before_heads = rotated("qh", "qp");  // features of each head, along the heads of a position
  before_heads.push_back(with(node("Transpose", {"qp"}, "qt"), "perm", {0, 2, 1, 3}));
  CHECK(refusal(file({{"qt", before_heads}, {"kr", k}})) != "none");

  const auto refused = [&](const Nodes& queries) { return refusal(of(queries, k)); };
  CHECK(refused(rotated("qt", "qr", "close")) != "none");
  CHECK(refused(rotated("qt", "qr", "first_row_close")) != "none");
  CHECK(refused(rotated("qt", "qr", "sin", "cos")) != "none");
  CHECK(refused(rotated("qt", "qr", "cos", "cos")) != "none");
  CHECK(refused(rotated("qt", "qr", "cos", "sin_half")) != "none");
  const Message swaps[] = {with(node("Concat", {"qrn", "qr1"}, "qrw"), "axis", 2),
                           with(node("Concat", {"qr1", "qrn"}, "qrw"), "axis", -1),
                           with(node("Concat", {"qrn", "qr2"}, "qrw"), "axis", -1)};
  for (const Message& swap : swaps) {
    CHECK(refused(rotated("qt", "qr", "cos", "sin", &swap)) != "none");
  }
  const Message by_number = with(node("Concat", {"qrn", "qr1"}, "qrw"), "axis", 3);
  CHECK(refused(rotated("qt", "qr", "cos", "sin", &by_number)) == "none");

  const Message first = node("Sub", {"qrac", "qrbs"}, "f1"),
                second = node("Add", {"qrbc", "qras"}, "f2"),
                joined = with(node("Concat", {"f1", "f2"}, "qr"), "axis", -1);
  const auto halves = [&](const Message& one, const Message& two, const Message& both) {
    return refused(rotated_halves("qt", "qr", one, two, both));
  };
  CHECK(halves(first, second, joined) == "none");
  CHECK(halves(first, node("Add", {"qras", "qrbc"}, "f2"), joined) == "none");
  CHECK(halves(first, second, with(node("Concat", {"f1", "f2"}, "qr"), "axis", 3)) == "none");
  CHECK(halves(first, second, with(node("Concat", {"f1", "f2"}, "qr"), "axis", 2)) != "none");
  CHECK(halves(first, second, with(node("Concat", {"f2", "f1"}, "qr"), "axis", -1)) != "none");
  CHECK(halves(node("Add", {"qrac", "qrbs"}, "f1"), second, joined) != "none");
  CHECK(halves(node("Sub", {"qrbs", "qrac"}, "f1"), second, joined) != "none");
  CHECK(halves(node("Sub", {"qrac", "qras"}, "f1"), second, joined) != "none");
  CHECK(halves(node("Sub", {"qrac", "qrbc"}, "f1"), second, joined) != "none");
  CHECK(halves(first, node("Sub", {"qrbc", "qras"}, "f2"), joined) != "none");
  CHECK(halves(first, node("Add", {"qrbc", "qrbs"}, "f2"), joined) != "none");
  CHECK(halves(first, node("Add", {"qrac", "qrbs"}, "f2"), joined) != "none");
}

TEST_CASE("heads are features side by side, of all positions", "[onnx]") {
  CHECK_THAT(
      refusal(file({{"vh", {node("Reshape", {"v", "inner"}, "vh")}},
                    {"vt", {with(node("Transpose", {"vh"}, "vt"), "perm", {0, 3, 1, 2})}}})),
      Contains("its values are not those of all positions, with 4 features that lie side by"));
  CHECK_THAT(
      refusal(file({{"o", {node("Mul", {"vt", "two"}, "vv"), node("MatMul", {"h", "vv"}, "o")}}})),
      Contains("its values are multiplied with a number"));
  CHECK_THAT(refusal(file({{"h", {with(node("Softmax", {"s"}, "h"), "axis", 2)}}})),
             Contains("softmax of dlflow is along the last dimension"));
  CHECK(refusal(file({{"h", {with(node("Softmax", {"s"}, "h"), "axis", 3)}}})) == "none");
}

TEST_CASE("queries, keys and values of one layer may come in another order", "[onnx]") {
  const auto of = [](const std::vector<std::string>& order) {
    Message split = Message().add(1, std::string_view("a"));
    for (const std::string& part : order) split.add(2, std::string_view(part));
    split.add(4, std::string_view("Split"));
    const std::string content =
        file({{"q", {node("MatMul", {"e", "all"}, "a"), with(split, "axis", -1)}},
              {"k", {}},
              {"v", {}}});
    for (const auto& [name, tensor] : imported(content).weights) {
      if (tensor.shape == std::vector<int64_t>{24, 8}) {
        return std::vector<float>{tensor.numbers[0], tensor.numbers[64], tensor.numbers[128]};
      }
    }
    return std::vector<float>();
  };
  // The first weight of the first feature of queries, of keys and of values.
  CHECK(of({"q", "k", "v"}) == std::vector<float>{0, 8, 16});
  CHECK(of({"k", "q", "v"}) == std::vector<float>{8, 0, 16});
  CHECK(of({"v", "k", "q"}) == std::vector<float>{16, 8, 0});
}

TEST_CASE("results that came before the layers that become one are still there", "[onnx]") {
  const Model model =
      imported(file({{"y", {node("Add", {"f", "e"}, "r"), node("MatMul", {"r", "last"}, "y")}}}))
          .model;
  REQUIRE(model.layers.size() == 5);
  CHECK(model.layers[3].kind == LayerKind::Add);
  CHECK(model.layers[3].inputs == std::vector<int>{2, 0});
  CHECK_THAT(refusal(file({{"y", {node("Add", {"f", "q"}, "y")}}})), Contains("no layer"));
}
