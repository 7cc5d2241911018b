#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "engine/model/expression_syntax.h"
#include "engine/model/parse.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz.h"

using namespace dlflow;

namespace {

constexpr ParseLimits kLimits = {.max_file_bytes = 1 << 16,
                                 .max_elements = 1000,
                                 .max_depth = 64,
                                 .max_nodes = 10'000,
                                 .check_files = false};

bool in_file_order(const Diagnostics& diagnostics) {
  return std::is_sorted(diagnostics.begin(), diagnostics.end(),
                        [](const Diagnostic& a, const Diagnostic& b) {
                          return std::pair(a.location.line, a.location.column) <
                                 std::pair(b.location.line, b.location.column);
                        });
}

void check_diagnostics(const Diagnostics& diagnostics) {
  DLFLOW_CHECK(!diagnostics.empty() && in_file_order(diagnostics));
  for (const Diagnostic& diagnostic : diagnostics) {
    DLFLOW_CHECK(!diagnostic.message.empty());
    DLFLOW_CHECK(find_invalid_utf8(to_string(diagnostic)) == std::string::npos);
  }
}

/// Treats a value as the planner does: evaluates the known part and compiles the rest again.
void check_template(const Template& value, const Context& known) {
  try {
    const Json rest = value.evaluate_known(known);
    DLFLOW_CHECK(Template(rest).evaluate_known(known) == rest);
  } catch (const Error&) {
    // an expression may fail for some elements of a matrix
  }
}

void check_workflow(const Workflow& workflow) {
  size_t num_elements = 0;
  std::vector<std::string> names;
  for (const Step& step : workflow.steps) names.push_back(step.name);
  for (const Step& step : workflow.steps) {
    for (const std::string& need : step.needs) {
      DLFLOW_CHECK(need != step.name && std::find(names.begin(), names.end(), need) != names.end());
    }
    const std::vector<Json> elements = matrix_elements(step.matrix);
    DLFLOW_CHECK(!elements.empty());
    num_elements += step.matrix.empty() ? 0 : elements.size();
    Context known;
    known.params = &workflow.params;
    known.matrix = &elements.front();
    for (const Template* value :
         {&step.run, &step.with, &step.environment, &step.resources, &step.condition}) {
      check_template(*value, known);
    }
  }
  DLFLOW_CHECK(num_elements <= kLimits.max_elements);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parsed_text = parse_text(text);
  if (const auto* error = std::get_if<SyntaxError>(&parsed_text)) {
    DLFLOW_CHECK(error->offset <= size && !error->message.empty());
  }
  const auto result = parse_workflow_text(text, "input.yaml", {}, kLimits);
  if (const auto* diagnostics = std::get_if<Diagnostics>(&result)) {
    check_diagnostics(*diagnostics);
  } else {
    check_workflow(std::get<Workflow>(result));
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() { return test::corpus(PARSE_CORPUS); }
