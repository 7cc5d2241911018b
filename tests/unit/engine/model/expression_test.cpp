#include "engine/model/expression.h"

#include "base/error.h"
#include "tests/support/catch.h"

using namespace dlflow;

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

/// Of a string that is one expression.
Json value_of(const std::string& expression) { return evaluate("${{ " + expression + " }}"); }

}  // namespace

TEST_CASE("a string that is one expression keeps the expression's type", "[expression]") {
  CHECK(evaluate("${{ params.epochs }}") == Json(3));
  CHECK(evaluate("${{params.lr}}") == Json({0.05, 0.1}));
  CHECK(evaluate("${{ params.net.width }}") == Json(64));
  CHECK(evaluate("${{ params.none }}") == Json());
}

TEST_CASE("text around an expression makes it a string", "[expression]") {
  CHECK(evaluate("lr=${{ matrix.lr }}") == "lr=0.1");
  CHECK(evaluate("${{ params.epochs }} ") == "3 ");
  CHECK(evaluate("${{ params.name }}-${{ params.on }}-${{ params.none }}") == "lenet-true-");
}

TEST_CASE("every reference finds its value", "[expression]") {
  CHECK(value_of("run.id") == "r-1");
  CHECK(value_of("run.directory") == "/runs/r-1");
  CHECK(value_of("matrix.lr") == 0.1);
  CHECK(value_of("matrix.case.batch * 2") == 128);
  CHECK(value_of("lookup(matrix.case, 'model')") == "lenet");
  CHECK(value_of("steps.train.outputs.model") == "<steps.train.outputs.model>");
  CHECK(value_of("steps.train.metrics.loss") == "<steps.train.metrics.loss>");
}

TEST_CASE("literals are numbers, quoted text, true, false and null", "[expression]") {
  CHECK(value_of("-12").is_number_integer());
  CHECK(value_of("1e-3") == 0.001);
  CHECK(value_of("'it''s'") == "it's");
  CHECK(value_of("'}}'") == "}}");
  CHECK(value_of("true") == true);
  CHECK(value_of("null") == Json());
}

TEST_CASE("operators compare and combine", "[expression]") {
  CHECK(value_of("1 == 1.0") == true);
  CHECK(value_of("1 == '1'") == false);
  CHECK(value_of("params.name != 'lenet'") == false);
  CHECK(value_of("1 < 2 && !(2 <= 1) || false") == true);
  CHECK(value_of("'a' < 'b' && 2 >= 2 && 3 > 2") == true);
  CHECK(value_of("false && params.missing") == false);  // the right side is not looked at
  CHECK(value_of("true || 1") == true);
}

TEST_CASE("functions compute what their names say", "[expression]") {
  CHECK(value_of("format('{0}-{1}-{0} {{}}', params.name, 2)") == "lenet-2-lenet {}");
  CHECK(value_of("join(params.lr, ' ')") == "0.05 0.1");
  CHECK(value_of("join(params.lr)") == "0.05,0.1");
  CHECK(value_of("length(params.lr)") == 2);
  CHECK(value_of("length('')") == 0);
  CHECK(value_of("contains(params.lr, 0.1)") == true);
  CHECK(value_of("contains('abc', 'bd')") == false);
  CHECK(value_of("min(3, 1.5, 2)") == 1.5);
  CHECK(value_of("max(params.lr)") == 0.1);
  CHECK(value_of("basename('/a/b.tar/')") == "b.tar");
  CHECK(value_of("toJSON(params.net)") == R"({"width":64})");
}

TEST_CASE("arithmetic is typed: integers stay integers, and only / makes real numbers of them",
          "[expression]") {
  CHECK(value_of("2 + 3 * 4 - 1") == 13);
  CHECK(value_of("(2 + 3) * 4").is_number_integer());
  CHECK(value_of("7 // 2") == 3);
  CHECK(value_of("-7 // 2") == -4);
  CHECK(value_of("7 // -2") == -4);
  CHECK(value_of("6 // -2") == -3);
  CHECK(value_of("12 / 4 / 3") == 1.0);
  CHECK(value_of("4 / 2").is_number_float());
  CHECK(value_of("0.1 + 0.2") == 0.3);
  CHECK(value_of("3 * 0.1") == 0.3);
  CHECK(value_of("10 - 2 - 3") == 5);
  CHECK_THROWS_WITH(value_of("params.epochs-1"), Catch::Contains("there is no params.epochs-1"));
}

TEST_CASE("a minus is a sign, an operator, or a part of a name", "[expression]") {
  CHECK(value_of("3 -1") == 2);
  CHECK(value_of("3 - -1") == 4);
  CHECK(value_of("-params.epochs") == -3);
  CHECK(value_of("-(1 + 2)*2") == -6);
  CHECK(value_of("params.epochs -1") == 2);
  CHECK(value_of("max(1, 2) -1 < 2") == true);
  CHECK(value_of("- 9223372036854775807 - 1") == Json(INT64_MIN));
  CHECK(value_of("-9223372036854775808") == Json(INT64_MIN));
}

TEST_CASE("arithmetic refuses what is no number, and what has no result", "[expression]") {
  CHECK_THROWS_WITH(value_of("params.name + 'x'"),
                    "${{ params.name + 'x' }}: '+' takes two numbers, not the string 'lenet' and "
                    "the string 'x'; format('{0}{1}', …) joins texts");
  CHECK_THROWS_WITH(value_of("params.lr * 2"), Catch::Contains("not a list and 2"));
  CHECK_THROWS_WITH(value_of("true + 1"), Catch::Contains("'+' takes two numbers, not true and 1"));
  CHECK_THROWS_WITH(value_of("1 / 0"), Catch::Contains("'/' cannot divide by 0"));
  CHECK_THROWS_WITH(value_of("1 // (1 - 1)"), Catch::Contains("'//' cannot divide by 0"));
  CHECK_THROWS_WITH(value_of("1.5 // 2"),
                    Catch::Contains("'//' takes two integers, not 1.5 and 2; '/' divides any"));
  CHECK_THROWS_WITH(value_of("9223372036854775807 + 1"), Catch::Contains("is too large a number"));
  CHECK_THROWS_WITH(value_of("(-9223372036854775807 - 1) // -1"), Catch::Contains("too large"));
  CHECK_THROWS_WITH(value_of("1e308 * 10"), Catch::Contains("is too large a number"));
}

TEST_CASE("a chain of additions may be as long as the file", "[expression]") {
  std::string sum = "1";
  for (int i = 0; i < 100'000; ++i) sum += " + 1";
  CHECK(value_of(sum) == 100'001);
}

TEST_CASE("elements of lists and values of keys are found, or it is said what there is",
          "[expression]") {
  CHECK(value_of("first(params.lr)") == 0.05);
  CHECK(value_of("at(params.lr, 1)") == 0.1);
  CHECK(value_of("at(params.lr, -1)") == 0.1);
  CHECK(value_of("lookup(params.net, 'width')") == 64);
  CHECK(value_of("lookup(params.net, 'depth', 3)") == 3);
  CHECK_THROWS_WITH(value_of("at(params.lr, 2)"),
                    Catch::Contains("at() finds nothing at place 2 of a list of 2"));
  CHECK_THROWS_WITH(value_of("at(params.lr, -3)"), Catch::Contains("at place -3"));
  CHECK_THROWS_WITH(value_of("at(params.lr, 0.5)"), Catch::Contains("an integer second, not 0.5"));
  CHECK_THROWS_WITH(value_of("first(params.name)"), Catch::Contains("first() takes a list"));
  CHECK_THROWS_WITH(value_of("lookup(params.net, 'widht')"),
                    Catch::Contains("lookup() finds no key 'widht'; did you mean 'width'?"));
  CHECK_THROWS_WITH(value_of("lookup(params.net, 'x')"), Catch::Contains("; it has width"));
  CHECK_THROWS_WITH(value_of("lookup(params.lr, 0)"), Catch::Contains("lookup() takes a mapping"));
}

TEST_CASE("ranges hold the numbers that people mean", "[expression]") {
  CHECK(value_of("range(1, 10, 3)") == Json({1, 4, 7, 10}));
  CHECK(value_of("range(1, 9, 3)") == Json({1, 4, 7}));
  CHECK(value_of("range(3, 1, -1)") == Json({3, 2, 1}));
  CHECK(value_of("range(0.1, 0.5, 0.1)") == Json({0.1, 0.2, 0.3, 0.4, 0.5}));
  CHECK(value_of("range(0, 0.3, 0.1)") == Json({0.0, 0.1, 0.2, 0.3}));  // 0.3 / 0.1 is below 3
  CHECK(value_of("range(0, 0.7, 0.1)").size() == 8);
  CHECK(value_of("range(0, 0.29, 0.1)") == Json({0.0, 0.1, 0.2}));
  CHECK(value_of("range(2, 2, 1)") == Json({2}));
  CHECK(value_of("geomspace(0.001, 1, 4)") == Json({0.001, 0.01, 0.1, 1.0}));
  CHECK(value_of("geomspace(8, 2, 3)") == Json({8.0, 4.0, 2.0}));
  CHECK_THROWS_WITH(value_of("range(1, 2, 0)"), Catch::Contains("never gets from 1 to 2"));
  CHECK_THROWS_WITH(value_of("range(1, 2, -1)"), Catch::Contains("never gets from 1 to 2"));
  CHECK_THROWS_WITH(value_of("range(0, 1e9, 1)"), Catch::Contains("more than 1,000,000"));
  CHECK_THROWS_WITH(value_of("range('a', 2, 1)"), Catch::Contains("range() takes numbers"));
  CHECK_THROWS_WITH(value_of("geomspace(0, 1, 3)"), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(value_of("geomspace(1, 2, 1)"), Catch::Contains("not 1"));
}

TEST_CASE("the best element is the one whose number is best", "[expression]") {
  CHECK(value_of("max_by(params.lr, params.lr)") == 0.1);
  CHECK(value_of("min_by(params.lr, params.lr)") == 0.05);
  CHECK(value_of("max_by(range(7, 9, 1), range(3, 1, -1))") == 7);
  CHECK_THROWS_WITH(value_of("max_by(params.lr, params.mixed)"), Catch::Contains("numbers second"));
  CHECK(value_of("max_by(params.lr, params.odd)") == 0.1);
  CHECK(value_of("min_by(params.lr, params.odd)") == 0.1);
  CHECK(value_of("max(params.odd)") == 0.3);
  CHECK_THROWS_WITH(value_of("max_by(params.lr, params.never)"),
                    Catch::Contains("passes over NaN"));
  CHECK_THROWS_WITH(value_of("min(params.never)"), Catch::Contains("passes over NaN"));
  CHECK_THROWS_WITH(value_of("max_by(params.lr, 3)"), Catch::Contains("takes two lists"));
  CHECK_THROWS_WITH(value_of("min_by(params.lr, range(1, 3, 1))"), Catch::Contains("not 3 for 2"));
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

TEST_CASE("what is not known yet stays as it is and can be evaluated later", "[expression]") {
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

TEST_CASE("what cannot be evaluated names the expression", "[expression]") {
  CHECK_THROWS_WITH(
      value_of("params.lr < 1"),
      "${{ params.lr < 1 }}: two numbers or two strings can be compared, not a list and 1");
  CHECK_THROWS_WITH(value_of("params.epochs && true"),
                    "${{ params.epochs && true }}: '&&' takes true or false, not 3");
  CHECK_THROWS_WITH(value_of("params.net.depth"),
                    "${{ params.net.depth }}: there is no params.net.depth");
  CHECK_THROWS_WITH(
      evaluate("a ${{ params.lr }}"),
      "${{ params.lr }}: a list cannot stand inside text; use join(list, ' ') or toJSON(value)");
  CHECK_THROWS_WITH(value_of("format('{1}', 2)"),
                    Catch::Contains("format() has no value for '{1}'"));
  CHECK_THROWS_WITH(
      value_of("min(params.name)"),
      Catch::Contains("min() takes numbers or one list of them, not the string 'lenet'"));
  CHECK_THROWS_WITH(Template("${{ run.id }}").evaluate({}),
                    "${{ run.id }}: run.id has no value here");
}

TEST_CASE("a malformed expression says where and what to write", "[expression]") {
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
  CHECK(message("${{ 1 }} ${{ parms.x }}") ==
        "1:4 unknown name 'parms' in an expression; did you mean 'params'?");
  CHECK(message("${{ epochs }}") ==
        "0:4 unknown name 'epochs' in an expression; names begin with params., matrix., steps. or "
        "run., text is quoted: 'text'");
  CHECK(message("${{ params }}") == "0:4 'params' is not a whole reference; write params.NAME");
  CHECK(message("${{ matrix }}") == "0:4 'matrix' is not a whole reference; write matrix.AXIS");
  CHECK(message("${{ matrix.a.b }}") == "");
  CHECK(message("${{ steps.a.output.b }}") ==
        "0:12 unknown name 'output' in steps.a.output.b; did you mean 'outputs'?");
  CHECK(message("${{ steps.a.outputs }}") ==
        "0:4 'steps.a.outputs' is not a whole reference; write steps.NAME.outputs.KEY, "
        "steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS");
  CHECK(message("${{ steps.a.outputs.b.c }}") ==
        "0:4 'steps.a.outputs.b.c' is not a whole reference; write steps.NAME.outputs.KEY, "
        "steps.NAME.metrics.KEY or steps.NAME.matrix.AXIS");
  CHECK(message("${{ steps.a.matrix.case.model }}") == "");
  CHECK(message("${{ run.name }}") == "0:8 unknown name 'name' in run.name");
  CHECK(message("${{ params.a % 2 }}") ==
        "0:13 unexpected '%' in an expression; the remainder of a / b is a - a // b * b");
  CHECK(message("${{ params.a + }}") == "0:15 unexpected '}}' in an expression");
  CHECK(message("${{ params.a = 1 }}") ==
        "0:13 unexpected '=' in an expression; equality is written ==");
  CHECK(message("${{ \"a\" }}") ==
        "0:4 unexpected '\"' in an expression; text is written in single quotes, 'like this'");
  CHECK(message("${{ lenght('a') }}") == "0:4 unknown function 'lenght'; did you mean 'length'?");
  CHECK(message("${{ length() }}") == "0:4 length(value) cannot be called with 0 arguments");
  CHECK(message("${{ }}") == "0:4 an expression is missing between '${{' and '}}'");
  CHECK(message("${{ 'a }}") == "0:4 a text that is opened with ' is never closed");
  CHECK(message("${{ params.a") == "0:0 '${{' without its '}}'; write ${{ NAME }}");
  CHECK(message("${{ 1 < 2 < 3 }}") == "0:10 comparisons cannot be chained; join them with &&");
  CHECK(message("${{ 1e999 }}") == "0:4 this number is too large or too small");
  CHECK(message("${{ 9223372036854775808 }}") == "0:4 this number is too large or too small");
  CHECK(message("${{ " + std::string(100, '(') + " }}") ==
        "0:36 the expression is nested too deeply");
}

TEST_CASE("placeholders of a format are numbers of its values, and braces come in pairs",
          "[expression]") {
  CHECK(value_of("format('{1}{0}', 'a', 'b')") == "ba");
  CHECK(value_of("format('{{{0}}}', 'a')") == "{a}");
  CHECK(value_of("format('aab {{', 'a')") == "aab {");
  CHECK(value_of("format('}', 'a')") == "}");
  CHECK(value_of("format('a--b')") == "a--b");
  for (const char* text : {"'{1}', 'a'", "'{}', 'a'", "'{x}', 'a'", "'{0', 'a'", "'{0x}', 'a'",
                           "'{', 'a'", "'{99999999999999999999999}', 'a'"}) {
    CHECK_THROWS_WITH(value_of("format(" + std::string(text) + ")"),
                      Catch::Contains("format() has no value for"));
  }
}

TEST_CASE("bounds of ranges and series are where they are promised", "[expression]") {
  CHECK(value_of("geomspace(1, 2, 2)") == Json({1.0, 2.0}));
  CHECK_THROWS_WITH(value_of("geomspace(1, 0, 2)"), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(value_of("geomspace(1, -1, 2)"), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(value_of("geomspace(1, 2, 2.5)"), Catch::Contains("not 2.5"));
  CHECK_THROWS_WITH(value_of("geomspace(1, 2, 1000001)"), Catch::Contains("not 1000001"));
  CHECK_THROWS_WITH(value_of("geomspace('a', 2, 2)"), Catch::Contains("geomspace() takes numbers"));
  CHECK(value_of("geomspace(1, 2, 1000000)").size() == 1000000);
  CHECK(value_of("range(1, 1000000, 1)").size() == 1000000);
  CHECK_THROWS_WITH(value_of("range(0, 1000000, 1)"), Catch::Contains("more than 1,000,000"));
}

TEST_CASE("the best of some numbers is one of them", "[expression]") {
  CHECK(value_of("max(range(1, 3, 1))") == 3);
  CHECK(value_of("max(2)") == 2);
  CHECK_THROWS_WITH(value_of("max(range(1, 3, 1), 2)"), Catch::Contains("max() takes numbers"));
  CHECK_THROWS_WITH(value_of("max_by(1, range(1, 3, 1))"), Catch::Contains("two lists"));
  CHECK(value_of("min_by(range(7, 9, 1), range(1, 3, 1))") == 7);
}

TEST_CASE("the name of a path is what stands behind its last slash", "[expression]") {
  CHECK(value_of("basename('/a/b.txt')") == "b.txt");
  CHECK(value_of("basename('a//')") == "a");
  CHECK(value_of("basename('/')") == "/");
  CHECK(value_of("basename('//')") == "/");
  CHECK(value_of("basename('')") == "");
}
