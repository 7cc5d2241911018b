#include "engine/model/yaml.h"

#include "tests/unit/engine/model/mistakes_of.h"

using namespace dlflow;
using test::mistakes_of;

TEST_CASE("an empty file says so", "[yaml]") {
  CHECK(mistakes_of("") == "w.yaml:1:1: error: the file is empty");
  CHECK(mistakes_of("# nothing yet\n") == "w.yaml:1:1: error: the file is empty");
  CHECK(mistakes_of("---\n") == "w.yaml:1:1: error: the file is empty");
}

TEST_CASE("a file that is not a mapping says what it should be", "[yaml]") {
  CHECK(mistakes_of("- a\n") ==
        "w.yaml:1:1: error: a workflow is a mapping with the keys name, params, images, steps, "
        "track, notify");
  CHECK(mistakes_of("steps: 3") ==
        "w.yaml:1:8: error: steps must be a mapping: a name and a description for each step");
  CHECK(mistakes_of("steps: {}") ==
        "w.yaml:1:8: error: steps must be a mapping: a name and a description for each step");
}

TEST_CASE("a bare expression in a flow collection must be quoted", "[yaml]") {
  const std::string refusal = "an expression inside { } or [ ] must be quoted: write ";
  CHECK(mistakes_of("steps:\n  a:\n    resources: {ranks: ${{ params.ranks }}, walltime: 1h}\n") ==
        "w.yaml:3:24: error: " + refusal + "\"${{ params.ranks }}\"");
  CHECK(mistakes_of("a: [1, ${{ params.x }}]") ==
        "w.yaml:1:8: error: " + refusal + "\"${{ params.x }}\"");
  CHECK(mistakes_of("a: {${{ x }}: 1}") == "w.yaml:1:5: error: " + refusal + "\"${{ x }}\"");
  CHECK(mistakes_of("a: [${{ x") == "w.yaml:1:5: error: " + refusal + "\"${{ … }}\"");
  CHECK(mistakes_of("a: ${{ format('a: {0}', 1) }}") ==
        "w.yaml:1:4: error: an expression with ': ' in it must be quoted, with \" around the whole "
        "value");
}

TEST_CASE("tabs cannot indent, and are fine elsewhere", "[yaml]") {
  CHECK(mistakes_of("steps:\n\ta:\n") ==
        "w.yaml:2:1: error: a tab in the indentation; YAML is indented with spaces");
  CHECK(mistakes_of("steps:\n  a:\n    run: |\n      if x; then\n      \ty\n      fi\n") == "");
}

TEST_CASE("text that is no YAML says what is expected", "[yaml]") {
  CHECK(mistakes_of("a: b: c") ==
        "w.yaml:1:5: error: not valid YAML: unexpected ':'; check the indentation, and quote text "
        "that contains ': '");
  CHECK(mistakes_of("a: {b: 1") == "w.yaml:1:9: error: not valid YAML: expected ',' or '}' here");
  CHECK(mistakes_of("a: [1") == "w.yaml:1:6: error: not valid YAML: expected ',' or ']' here");
  CHECK(mistakes_of("a: @x") ==
        "w.yaml:1:4: error: not valid YAML: text cannot begin with this character; quote it");
  CHECK(mistakes_of("a: *x") ==
        "w.yaml:1:4: error: not valid YAML: an alias whose anchor (&name) is not defined");
  CHECK(mistakes_of("a: 'b") == "w.yaml:1:6: error: not valid YAML: a quote is never closed");
  CHECK(mistakes_of("}") ==
        "w.yaml:1:1: error: not valid YAML: a closing bracket without its opening one");
  CHECK(mistakes_of("a: 1\n- b\n") ==
        "w.yaml:2:1: error: not valid YAML: expected a key; the keys of one mapping begin in the "
        "same column");
  CHECK(mistakes_of("a: \"b\n") == "w.yaml:1:4: error: this quote is never closed");
  CHECK(mistakes_of("a: &x 'it''s\n") == "w.yaml:1:4: error: this quote is never closed");
  CHECK(mistakes_of("? [a]\n: b\n") ==
        "w.yaml:1:3: error: a key must be a word, or a bracket is never closed");
  CHECK(mistakes_of("a: !secret x\nsteps: {s: {run: x}}") ==
        "w.yaml:1:1: error: unknown key 'a' in the workflow; known: name, params, images, steps, "
        "track, notify\n"
        "w.yaml:1:4: error: the YAML tag '!secret' has no meaning here; remove it");
}

TEST_CASE("a file holds one document", "[yaml]") {
  CHECK(mistakes_of("steps: {a: {run: x}}\n---\nb: 1\n") ==
        "w.yaml:2:1: error: a second YAML document begins here; a file holds one");
}

TEST_CASE("bytes that are no text are found", "[yaml]") {
  CHECK(mistakes_of("a: 1\nb: \xff\n") ==
        "w.yaml:2:4: error: byte 0xff is not UTF-8; save the file as UTF-8");
  CHECK(mistakes_of("a: \x04\n") ==
        "w.yaml:1:4: error: a control character (0x04) cannot stand in YAML; remove it");
  CHECK(mistakes_of("a: \x7f\n") ==
        "w.yaml:1:4: error: a control character (0x7f) cannot stand in YAML; remove it");
  CHECK(mistakes_of(std::string("\xff\xfe"
                                "a\0:\0",
                                6)) ==
        "w.yaml:1:1: error: byte 0xff is not UTF-8; save the file as UTF-8");
}

TEST_CASE("files that are too much are refused cheaply", "[yaml]") {
  std::string bomb = "a: &a0 [x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += "b" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += "*a" + std::to_string(i - 1) + (j < 9 ? "," : "]\n");
  }
  CHECK(mistakes_of(bomb) ==
        "w.yaml:7:22: error: the file has more than 1000000 values, aliases counted each time; it "
        "is too large to read");
  CHECK(mistakes_of("a: &x [*x]") ==
        "w.yaml:1:8: error: this alias stands inside the value that it repeats");
  CHECK(mistakes_of("a: " + std::string(1000, '[') + std::string(1000, ']')) ==
        "w.yaml:1:67: error: values are nested deeper than 64 levels");
  ParseLimits limits;
  limits.max_file_bytes = 10;
  CHECK(mistakes_of("steps: {a: {}}", {}, limits) ==
        "w.yaml: error: the file has 14 B, a workflow may have 10 B; is it the right file?");
}

TEST_CASE("aliases of deep values count as deep as they are", "[yaml]") {
  std::string text = "a0: &a0 [1]\n";
  for (int i = 1; i < 70; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            "]\n";
  }
  CHECK(mistakes_of(text) == "w.yaml:63:12: error: values are nested deeper than 64 levels");
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

TEST_CASE("a merge key takes mappings alone, and once", "[yaml]") {
  CHECK(mistakes_of("name: w\nsteps:\n  a: {<<: [1], run: x}\n") ==
        "w.yaml:3:12: error: << takes a mapping, as an alias *NAME, or a list of them: its keys "
        "are added");
  CHECK_THAT(mistakes_of("{name: w, steps: {a: {<<: {env: {A: 1}}, <<: {}, run: x}}}\n"),
             Catch::Contains("key '<<' is there twice"));  // also in the first line
  CHECK(mistakes_of("name: w\nsteps:\n  a: {<<: {env: {A: 1}}, <<: {}, run: x}\n") ==
        "w.yaml:3:26: error: key '<<' is there twice; write << : [*first, *second]");
}
