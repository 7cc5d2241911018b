#include "engine/model/expression.h"

#include "tests/support/answers.h"

using namespace dlflow;
using test::check_answers;
using test::check_refusals;

namespace {

const Json kParams = Json::parse(R"({
  "epochs": 3, "lr": [0.05, 0.1], "name": "lenet", "on": true, "none": null,
  "net": {"width": 64}, "mixed": ["a", 1], "odd": ["NaN", 0.3], "never": ["NaN", "-Infinity"], "tricky": "${{ run.id }}"})");
const Json kMatrix = {{"lr", 0.1}, {"case", {{"model", "lenet"}, {"batch", 64}}}};
const Json kRun = {{"id", "r-1"}, {"directory", "/runs/r-1"}};

Context context_with_everything() {
  Context context;
  context.params = &kParams;
  context.matrix = &kMatrix;
  context.run = &kRun;
  context.steps = [](const Reference& reference) { return Json("<" + to_string(reference) + ">"); };
  return context;
}

Json evaluate(const Json& value) { return Template(value).evaluate(context_with_everything()); }

/// Returns the value of a string that is one expression.
Json value_of(const std::string& expression) { return evaluate("${{ " + expression + " }}"); }

}  // namespace

TEST_CASE("a string that is one expression keeps the expression's type", "[expression]") {
  check_answers<Json>(evaluate, {{"${{ params.epochs }}", Json(3)},
                                 {"${{params.lr}}", Json({0.05, 0.1})},
                                 {"${{ params.net.width }}", Json(64)},
                                 {"${{ params.none }}", Json()}});
}

TEST_CASE("text around an expression makes it a string", "[expression]") {
  check_answers<Json>(evaluate,
                      {{"lr=${{ matrix.lr }}", "lr=0.1"},
                       {"${{ params.epochs }} ", "3 "},
                       {"${{ params.name }}-${{ params.on }}-${{ params.none }}", "lenet-true-"}});
}

TEST_CASE("every reference finds its value", "[expression]") {
  check_answers<Json>(value_of, {{"run.id", "r-1"},
                                 {"run.directory", "/runs/r-1"},
                                 {"matrix.lr", 0.1},
                                 {"matrix.case.batch * 2", 128},
                                 {"lookup(matrix.case, 'model')", "lenet"},
                                 {"steps.train.outputs.model", "<steps.train.outputs.model>"},
                                 {"steps.train.metrics.loss", "<steps.train.metrics.loss>"}});
}

TEST_CASE("literals are numbers, quoted text, true, false and null", "[expression]") {
  CHECK(value_of("-12").is_number_integer());
  check_answers<Json>(
      value_of,
      {{"1e-3", 0.001}, {"'it''s'", "it's"}, {"'}}'", "}}"}, {"true", true}, {"null", Json()}});
}

TEST_CASE("operators compare values and combine conditions", "[expression]") {
  check_answers<Json>(value_of,
                      {{"1 == 1.0", true},
                       {"1 == '1'", false},
                       {"params.name != 'lenet'", false},
                       {"1 < 2 && !(2 <= 1) || false", true},
                       {"'a' < 'b' && 2 >= 2 && 3 > 2", true},
                       {"false && params.missing", false},  // the right side is not evaluated
                       {"true || 1", true}});
}

TEST_CASE("functions compute the values that their names suggest", "[expression]") {
  check_answers<Json>(value_of, {{"format('{0}-{1}-{0} {{}}', params.name, 2)", "lenet-2-lenet {}"},
                                 {"join(params.lr, ' ')", "0.05 0.1"},
                                 {"join(params.lr)", "0.05,0.1"},
                                 {"length(params.lr)", 2},
                                 {"length('')", 0},
                                 {"contains(params.lr, 0.1)", true},
                                 {"contains('abc', 'bd')", false},
                                 {"min(3, 1.5, 2)", 1.5},
                                 {"max(params.lr)", 0.1},
                                 {"basename('/a/b.tar/')", "b.tar"},
                                 {"toJSON(params.net)", R"({"width":64})"}});
}

TEST_CASE("arithmetic is typed: integers stay integers, and only / makes real numbers of them",
          "[expression]") {
  CHECK(value_of("2 + 3 * 4 - 1") == 13);
  CHECK(value_of("(2 + 3) * 4").is_number_integer());
  check_answers<Json>(
      value_of,
      {{"7 // 2", 3}, {"-7 // 2", -4}, {"7 // -2", -4}, {"6 // -2", -3}, {"12 / 4 / 3", 1.0}});
  CHECK(value_of("4 / 2").is_number_float());
  check_answers<Json>(value_of, {{"0.1 + 0.2", 0.3}, {"3 * 0.1", 0.3}, {"10 - 2 - 3", 5}});
  CHECK_THROWS_WITH(value_of("params.epochs-1"), Catch::Contains("there is no params.epochs-1"));
}

TEST_CASE("a minus is a sign, an operator, or a part of a name", "[expression]") {
  check_answers<Json>(value_of, {{"3 -1", 2},
                                 {"3 - -1", 4},
                                 {"-params.epochs", -3},
                                 {"-(1 + 2)*2", -6},
                                 {"params.epochs -1", 2},
                                 {"max(1, 2) -1 < 2", true},
                                 {"- 9223372036854775807 - 1", Json(INT64_MIN)},
                                 {"-9223372036854775808", Json(INT64_MIN)}});
}

TEST_CASE("arithmetic refuses operands that are not numbers, and undefined results",
          "[expression]") {
  CHECK_THROWS_WITH(value_of("params.name + 'x'"),
                    "${{ params.name + 'x' }}: '+' takes two numbers, not the string 'lenet' and "
                    "the string 'x'; format('{0}{1}', …) joins texts");
  check_refusals(value_of, {{"params.lr * 2", "not a list and 2"},
                            {"true + 1", "'+' takes two numbers, not true and 1"},
                            {"1 / 0", "'/' cannot divide by 0"},
                            {"1 // (1 - 1)", "'//' cannot divide by 0"},
                            {"1.5 // 2", "'//' takes two integers, not 1.5 and 2; '/' divides any"},
                            {"9223372036854775807 + 1", "is too large a number"},
                            {"(-9223372036854775807 - 1) // -1", "too large"},
                            {"1e308 * 10", "is too large a number"}});
}

TEST_CASE("a chain of additions may be as long as the file", "[expression]") {
  std::string sum = "1";
  for (int i = 0; i < 100'000; ++i) sum += " + 1";
  CHECK(value_of(sum) == 100'001);
}

TEST_CASE("elements of lists and values of keys are found, or the error lists the existing ones",
          "[expression]") {
  check_answers<Json>(value_of, {{"first(params.lr)", 0.05},
                                 {"at(params.lr, 1)", 0.1},
                                 {"at(params.lr, -1)", 0.1},
                                 {"lookup(params.net, 'width')", 64},
                                 {"lookup(params.net, 'depth', 3)", 3}});
  check_refusals(value_of, {{"at(params.lr, 2)", "at() finds nothing at place 2 of a list of 2"},
                            {"at(params.lr, -3)", "at place -3"},
                            {"at(params.lr, 0.5)", "an integer second, not 0.5"},
                            {"first(params.name)", "first() takes a list"},
                            {"lookup(params.net, 'widht')",
                             "lookup() finds no key 'widht'; did you mean 'width'?"},
                            {"lookup(params.net, 'x')", "; it has width"},
                            {"lookup(params.lr, 0)", "lookup() takes a mapping"}});
}

TEST_CASE("ranges hold the expected numbers", "[expression]") {
  check_answers<Json>(value_of,
                      {{"range(1, 10, 3)", Json({1, 4, 7, 10})},
                       {"range(1, 9, 3)", Json({1, 4, 7})},
                       {"range(3, 1, -1)", Json({3, 2, 1})},
                       {"range(0.1, 0.5, 0.1)", Json({0.1, 0.2, 0.3, 0.4, 0.5})},
                       {"range(0, 0.3, 0.1)", Json({0.0, 0.1, 0.2, 0.3})},  // 0.3 / 0.1 is below 3
                       {"range(0, 0.29, 0.1)", Json({0.0, 0.1, 0.2})},
                       {"range(2, 2, 1)", Json({2})},
                       {"geomspace(0.001, 1, 4)", Json({0.001, 0.01, 0.1, 1.0})},
                       {"geomspace(8, 2, 3)", Json({8.0, 4.0, 2.0})}});
  CHECK(value_of("range(0, 0.7, 0.1)").size() == 8);
  check_refusals(value_of, {{"range(1, 2, 0)", "never gets from 1 to 2"},
                            {"range(1, 2, -1)", "never gets from 1 to 2"},
                            {"range(0, 1e9, 1)", "more than 1,000,000"},
                            {"range('a', 2, 1)", "range() takes numbers"},
                            {"geomspace(0, 1, 3)", "above 0"},
                            {"geomspace(1, 2, 1)", "not 1"}});
}

TEST_CASE("the best element is the one with the best number", "[expression]") {
  check_answers<Json>(value_of, {{"max_by(params.lr, params.lr)", 0.1},
                                 {"min_by(params.lr, params.lr)", 0.05},
                                 {"max_by(range(7, 9, 1), range(3, 1, -1))", 7}});
  CHECK_THROWS_WITH(value_of("max_by(params.lr, params.mixed)"), Catch::Contains("numbers second"));
  check_answers<Json>(value_of, {{"max_by(params.lr, params.odd)", 0.1},
                                 {"min_by(params.lr, params.odd)", 0.1},
                                 {"max(params.odd)", 0.3}});
  check_refusals(value_of, {{"max_by(params.lr, params.never)", "ignores NaN"},
                            {"min(params.never)", "ignores NaN"},
                            {"max_by(params.lr, 3)", "takes two lists"},
                            {"min_by(params.lr, range(1, 3, 1))", "not 3 for 2"}});
}

TEST_CASE("$${{ stands for itself", "[expression]") {
  CHECK(evaluate("$${{ x }} ${{ 1 }}") == "${{ x }} 1");
  CHECK(evaluate("$$${{ x }}") == "$${{ x }}");
  CHECK_FALSE(Template("$${{ x }}").has_references());
}

TEST_CASE("expressions are found anywhere in a value", "[expression]") {
  const Json value = {
      {"a", {1, "${{ params.epochs }}"}}, {"b", {{"c", "${{ matrix.lr }}"}}}, {"d", Json::array()}};
  CHECK(evaluate(value) == Json({{"a", {1, 3}}, {"b", {{"c", 0.1}}}, {"d", Json::array()}}));
  CHECK(Template(value).references().size() == 2);
  CHECK(Template(value).source() == value);
}

TEST_CASE("an expression without a value yet stays unchanged and can be evaluated later",
          "[expression]") {
  const Json value = {{"a", "${{ params.epochs }}/${{ steps.x.outputs.y }}"},
                      {"b", "${{ format('{0}{1}', params.epochs, run.id) }}"},
                      {"c", "${{ params.epochs }}"}};
  Context params_only;
  params_only.params = &kParams;
  const Json known = Template(value).evaluate_known(params_only);
  CHECK(known == Json({{"a", "3/${{ steps.x.outputs.y }}"},
                       {"b", "${{ format('{0}{1}', params.epochs, run.id) }}"},
                       {"c", 3}}));
  CHECK(evaluate(known) == evaluate(value));
}

TEST_CASE("a parameter's text never becomes an expression", "[expression]") {
  Context params_only;
  params_only.params = &kParams;
  const Json known =
      Template({"${{ params.tricky }}", "x${{ params.tricky }}"}).evaluate_known(params_only);
  CHECK(evaluate(known) == Json({"${{ run.id }}", "x${{ run.id }}"}));
}

TEST_CASE("a failed evaluation names its expression", "[expression]") {
  CHECK_THROWS_WITH(
      value_of("params.lr < 1"),
      "${{ params.lr < 1 }}: two numbers or two strings can be compared, not a list and 1");
  CHECK_THROWS_WITH(value_of("params.epochs && true"),
                    "${{ params.epochs && true }}: '&&' takes true or false, not 3");
  CHECK_THROWS_WITH(value_of("params.net.depth"),
                    "${{ params.net.depth }}: there is no params.net.depth");
  CHECK_THROWS_WITH(
      evaluate("a ${{ params.lr }}"),
      "${{ params.lr }}: a list cannot be used inside text; use join(list, ' ') or toJSON(value)");
  CHECK_THROWS_WITH(value_of("format('{1}', 2)"),
                    Catch::Contains("format() has no value for '{1}'"));
  CHECK_THROWS_WITH(
      value_of("min(params.name)"),
      Catch::Contains("min() takes numbers or one list of them, not the string 'lenet'"));
  CHECK_THROWS_WITH(Template("${{ run.id }}").evaluate({}),
                    "${{ run.id }}: run.id has no value here");
}

TEST_CASE("a malformed expression is reported with its place and a correction", "[expression]") {
  const auto message = [](const std::string& text) {
    std::string found;
    const Template compiled(
        Json(text),
        [](std::span<const std::string>, size_t index, size_t offset) {
          return Location{int(index), int(offset)};
        },
        [&](Location at, const std::string& what) {
          found += std::to_string(at.line) + ":" + std::to_string(at.column) + " " + what;
        });
    return found;
  };
  check_answers(
      message,
      {{"${{ 1 }} ${{ parms.x }}",
        "1:4 unknown name 'parms' in an expression; did you mean 'params'?"},
       {"${{ epochs }}",
        "0:4 unknown name 'epochs' in an expression; names begin with params., matrix., steps. or "
        "run., and text is quoted: 'text'"},
       {"${{ params }}", "0:4 'params' is not a complete reference; write params.NAME"},
       {"${{ matrix }}", "0:4 'matrix' is not a complete reference; write matrix.AXIS"},
       {"${{ matrix.a.b }}", ""},
       {"${{ steps.a.output.b }}",
        "0:12 unknown name 'output' in steps.a.output.b; did you mean 'outputs'?"},
       {"${{ steps.a.outputs }}",
        "0:4 'steps.a.outputs' is not a complete reference; write steps.NAME.outputs.KEY, "
        "steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS"},
       {"${{ steps.a.outputs.b.c }}",
        "0:4 'steps.a.outputs.b.c' is not a complete reference; write steps.NAME.outputs.KEY, "
        "steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS"},
       {"${{ steps.a.matrix.case.model }}", ""},
       {"${{ run.name }}", "0:8 unknown name 'name' in run.name; known: id, directory"},
       {"${{ params.a % 2 }}",
        "0:13 unexpected '%' in an expression; the remainder of a / b is a - a // b * b"},
       {"${{ params.a + }}",
        "0:15 unexpected '}}' in an expression; a value or a ')' is missing before it"},
       {"${{ params.a and true }}", "0:13 unexpected 'and' in an expression; write &&"},
       {"${{ params.a[0] }}",
        "0:12 unexpected '[' in an expression; an element of a list is at(LIST, 0)"},
       {"${{ secrets.TOKEN }}",
        "0:4 unknown name 'secrets' in an expression; the program finds it in its environment, as "
        "$TOKEN"},
       {"${{ params.a = 1 }}", "0:13 unexpected '=' in an expression; equality is written =="},
       {"${{ \"a\" }}",
        "0:4 unexpected '\"' in an expression; text is written in single quotes, 'like this'"},
       {"${{ lenght('a') }}", "0:4 unknown function 'lenght'; did you mean 'length'?"},
       {"${{ length() }}", "0:4 length(value) cannot be called with 0 arguments"},
       {"${{ }}", "0:4 an expression is missing between '${{' and '}}'"},
       {"${{ 'a }}", "0:4 a text that is opened with ' is never closed"},
       {"${{ params.a", "0:0 '${{' without its '}}'; write ${{ NAME }}"},
       {"${{ 1 < 2 < 3 }}", "0:10 comparisons cannot be chained; join them with &&"},
       {"${{ 1e999 }}", "0:4 this number is too large or too small"},
       {"${{ 9223372036854775808 }}", "0:4 this number is too large or too small"},
       {"${{ " + std::string(100, '(') + " }}", "0:36 the expression is nested too deeply"}});
}

TEST_CASE("placeholders of a format are indices of its values, and braces come in pairs",
          "[expression]") {
  check_answers<Json>(value_of, {{"format('{1}{0}', 'a', 'b')", "ba"},
                                 {"format('{{{0}}}', 'a')", "{a}"},
                                 {"format('aab {{', 'a')", "aab {"},
                                 {"format('}', 'a')", "}"},
                                 {"format('a--b')", "a--b"}});
  for (const char* text : {"'{1}', 'a'", "'{}', 'a'", "'{x}', 'a'", "'{0', 'a'", "'{0x}', 'a'",
                           "'{', 'a'", "'{99999999999999999999999}', 'a'"}) {
    CHECK_THROWS_WITH(value_of("format(" + std::string(text) + ")"),
                      Catch::Contains("format() has no value for"));
  }
}

TEST_CASE("bounds of ranges and series are as documented", "[expression]") {
  CHECK(value_of("geomspace(1, 2, 2)") == Json({1.0, 2.0}));
  check_refusals(value_of, {{"geomspace(1, 0, 2)", "above 0"},
                            {"geomspace(1, -1, 2)", "above 0"},
                            {"geomspace(1, 2, 2.5)", "not 2.5"},
                            {"geomspace(1, 2, 1000001)", "not 1000001"},
                            {"geomspace('a', 2, 2)", "geomspace() takes numbers"}});
  CHECK(value_of("geomspace(1, 2, 1000000)").size() == 1000000);
  CHECK(value_of("range(1, 1000000, 1)").size() == 1000000);
  CHECK_THROWS_WITH(value_of("range(0, 1000000, 1)"), Catch::Contains("more than 1,000,000"));
}

TEST_CASE("the best of several numbers is one of them", "[expression]") {
  CHECK(value_of("max(range(1, 3, 1))") == 3);
  CHECK(value_of("max(2)") == 2);
  CHECK_THROWS_WITH(value_of("max(range(1, 3, 1), 2)"), Catch::Contains("max() takes numbers"));
  CHECK_THROWS_WITH(value_of("max_by(1, range(1, 3, 1))"), Catch::Contains("two lists"));
  CHECK(value_of("min_by(range(7, 9, 1), range(1, 3, 1))") == 7);
}

TEST_CASE("the name of a path is the part after its last slash", "[expression]") {
  check_answers<Json>(value_of, {{"basename('/a/b.txt')", "b.txt"},
                                 {"basename('a//')", "a"},
                                 {"basename('/')", "/"},
                                 {"basename('//')", "/"},
                                 {"basename('')", ""}});
}
