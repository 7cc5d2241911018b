#include "engine/model/yaml.h"

#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::answer_to;
using test::check_mistakes;

TEST_CASE("an empty file is reported as empty", "[yaml]") {
  check_mistakes({{"", "1:1: the file is empty, or has nothing but comments"},
                  {"# nothing yet\n", "1:1: the file is empty, or has nothing but comments"},
                  {"---\n", "1:1: the file is empty, or has nothing but comments"}});
}

TEST_CASE("a file that is not a mapping is reported with the expected form", "[yaml]") {
  check_mistakes(
      {{"- a\n",
        "1:1: a workflow is a mapping with the keys name, params, images, steps, track, notify"},
       {"steps: 3", "1:8: steps must be a mapping: a name and a description for each step"},
       {"steps: {}", "1:8: steps must be a mapping: a name and a description for each step"}});
}

TEST_CASE("a bare expression in a flow collection must be quoted", "[yaml]") {
  const std::string refusal = "an expression inside { } or [ ] must be quoted: write ";
  check_mistakes(
      {{"steps:\n  a:\n    resources: {ranks: ${{ params.ranks }}, walltime: 1h}\n",
        "3:24: " + refusal + "\"${{ params.ranks }}\""},
       {"a: [1, ${{ params.x }}]", "1:8: " + refusal + "\"${{ params.x }}\""},
       {"a: {${{ x }}: 1}", "1:5: " + refusal + "\"${{ x }}\""},
       {"a: [${{ x", "1:5: " + refusal + "\"${{ … }}\""},
       {"a: ${{ format('a: {0}', 1) }}",
        "1:4: an expression with ': ' in it must be quoted, with \" around the whole value"}});
}

TEST_CASE("tabs cannot indent, and are fine elsewhere", "[yaml]") {
  CHECK(answer_to("steps:\n\ta:\n") ==
        "2:1: a tab in the indentation; YAML is indented with spaces");
  CHECK(answer_to("steps:\n  a:\n    run: |\n      if x; then\n      \ty\n      fi\n") == "");
}

TEST_CASE("text that is not YAML is reported with the expected syntax", "[yaml]") {
  check_mistakes(
      {{"a: b: c",
        "1:5: not valid YAML: unexpected ':'; check the indentation, and quote text that contains "
        "': '"},
       {"a: {b: 1",
        "1:9: not valid YAML: expected ',' or '}' here; check the brackets, and write a space "
        "after each ':'"},
       {"a: [1", "1:6: not valid YAML: expected ',' or ']' here; check the brackets and quotes"},
       {"a: @x", "1:4: not valid YAML: text cannot begin with this character; quote it"},
       {"a: *x",
        "1:4: not valid YAML: no value above has this name; write &NAME before the value that "
        "*NAME repeats"},
       {"a: 'b", "1:6: not valid YAML: a quote is never closed"},
       {"a: > 0.9",
        "1:6: not valid YAML: text that begins with > or | must be quoted: write '>= 0.9'"},
       {"}",
        "1:1: not valid YAML: this bracket does not close the last one that was opened; close each "
        "[ by ] and { by }"},
       {"a: 1\n- b\n",
        "2:1: not valid YAML: expected a key; the keys of one mapping begin in the same column"},
       {"a: \"b\n", "1:4: this quote is never closed"},
       {"a: &x 'it''s\n", "1:4: this quote is never closed"},
       {"? [a]\n: b\n", "1:3: a key must be a word, or a bracket is never closed"},
       {"a: !secret x\nsteps: {s: {run: x}}",
        "1:1: unknown key 'a' in the workflow; known: name, params, images, steps, track, notify\n"
        "1:4: the YAML tag '!secret' has no meaning here; remove it"}});
}

TEST_CASE("a file holds one document", "[yaml]") {
  CHECK(answer_to("steps: {a: {run: x}}\n---\nb: 1\n") ==
        "2:1: a second YAML document begins here; a file holds one");
}

TEST_CASE("bytes that are not text are found", "[yaml]") {
  check_mistakes(
      {{"a: 1\nb: \xff\n", "2:4: byte 0xff is not UTF-8; save the file as UTF-8"},
       {"a: \x04\n", "1:4: a control character (0x04) is not allowed in YAML; remove it"},
       {"a: \x7f\n", "1:4: a control character (0x7f) is not allowed in YAML; remove it"},
       {std::string("\xff\xfe"
                    "a\0:\0",
                    6),
        "1:1: byte 0xff is not UTF-8; save the file as UTF-8"}});
}

TEST_CASE("oversized files are refused cheaply", "[yaml]") {
  std::string bomb = "a: &a0 [x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += "b" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += "*a" + std::to_string(i - 1) + (j < 9 ? "," : "]\n");
  }
  check_mistakes(
      {{bomb,
        "7:22: the file has more than 1000000 values, aliases counted each time; it is too large "
        "to read"},
       {"a: &x [*x]", "1:8: this alias stands inside the value that it repeats"},
       {"a: " + std::string(1000, '[') + std::string(1000, ']'),
        "1:67: values are nested deeper than 64 levels"}});
  ParseLimits limits;
  limits.max_file_bytes = 10;
  CHECK(test::mistakes_of("steps: {a: {}}", {}, limits) ==
        "w.yaml: error: the file has 14 B, but a workflow may have at most 10 B; is it the right "
        "file?");
}

TEST_CASE("aliases of deep values count with their depth", "[yaml]") {
  std::string text = "a0: &a0 [1]\n";
  for (int i = 1; i < 70; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            "]\n";
  }
  CHECK(answer_to(text) == "63:12: values are nested deeper than 64 levels");
}

TEST_CASE("a merge key adds what a mapping lacks", "[yaml]") {
  const Workflow workflow = test::workflow_of(R"(
name: w
steps:
  a: &usual
    run: ./a
    env: &variables {MODE: fast, SEED: 1}
    resources: &two {ranks: 2, walltime: 1h}
  b:
    <<: *usual
    run: ./b
    env: {<<: *variables, SEED: 2}
  c:
    run: ./c
    resources: {<<: [{walltime: 2h}, *two], cpus_per_rank: 3}
)");
  const Step& b = workflow.steps[1];
  const Step& c = workflow.steps[2];
  CHECK(b.run.source() == "./b");
  CHECK(b.environment.source() == Json{{"MODE", "fast"}, {"SEED", 2}});
  CHECK(b.resources.source() == workflow.steps[0].resources.source());
  const Resources resources = resources_from_json(c.resources.source());
  CHECK(resources.ranks == 2);
  CHECK(resources.cpus_per_rank == 3);
  CHECK(resources.walltime == std::chrono::hours(2));
}

TEST_CASE("a merge key takes only mappings, and only once", "[yaml]") {
  CHECK(answer_to("name: w\nsteps:\n  a: {<<: [1], run: x}\n") ==
        "3:12: << takes a mapping, as an alias *NAME, or a list of them: its keys are added");
  CHECK_THAT(answer_to("{name: w, steps: {a: {<<: {env: {A: 1}}, <<: {}, run: x}}}\n"),
             Catch::Contains("key '<<' occurs twice"));  // also in the first line
  CHECK(answer_to("name: w\nsteps:\n  a: {<<: {env: {A: 1}}, <<: {}, run: x}\n") ==
        "3:26: key '<<' occurs twice; write << : [*first, *second]");
}
