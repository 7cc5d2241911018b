#include <set>

#include "base/file.h"
#include "base/text.h"
#include "engine/model/expression_functions.h"
#include "engine/model/step_kinds.h"
#include "engine/model/workflow_shape.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

using Names = std::set<std::string>;

void collect_keys(const Shape& shape, Names& keys) {
  for (const Field& field : shape.fields) {
    keys.insert(field.name);
    collect_keys(field.shape, keys);
  }
  for (const Shape& part : shape.parts) collect_keys(part, keys);
}

/// The names in backquotes that begin a row of a table.
Names documented_names(const std::string& document) {
  Names names;
  for (const std::string& line : split(document, '\n')) {
    if (!line.starts_with("| `")) continue;
    const std::string word = line.substr(3, line.find('`', 3) - 3);
    names.insert(word.substr(0, word.find_first_of("(. ")));
  }
  return names;
}

}  // namespace

TEST_CASE("docs/user/workflow-format.md has every key and function, and no other", "[documents]") {
  Names known = {"params", "matrix", "run", "steps"};  // references have a table, too
  collect_keys(workflow_shape(), known);
  collect_keys(step_shape(), known);
  for (const StepKind& kind : step_kinds()) collect_keys(kind.with, known);
  for (const Function& function : expression_functions()) known.insert(std::string(function.name));
  known.erase("max");  // in the row of min

  CHECK(documented_names(read_file(WORKFLOW_FORMAT)) == known);
}

TEST_CASE("docs/user/workflow-format.md tells the outputs of every kind", "[documents]") {
  const std::string document = read_file(WORKFLOW_FORMAT);
  for (const StepKind& kind : step_kinds()) {
    const size_t begin = document.find("### `uses: " + kind.name + "`");
    REQUIRE(begin != std::string::npos);
    const std::string paragraph = document.substr(begin, document.find("\n\n", begin) - begin);
    for (const Field& output : kind.outputs) {
      CHECK_THAT(paragraph, Catch::Contains("`" + output.name + "`"));
    }
  }
}
