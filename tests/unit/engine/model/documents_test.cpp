#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "engine/model/expression_functions.h"
#include "engine/model/step_kinds.h"
#include "engine/model/workflow_shape.h"
#include "tests/support/catch.h"

using namespace dlflow;

namespace {

constexpr std::string_view kMarker = "<!-- keys of ";  // the table of an object's keys follows

/// Objects of the format by their path: "step", "step.checkpoint", "train.optimizer".
using Objects = std::map<std::string, const Shape*>;

void collect_objects(const std::string& place, const Shape& shape, Objects& objects) {
  if (!shape.fields.empty()) objects.emplace(place, &shape);
  for (const Field& field : shape.fields) {
    collect_objects(place + "." + field.name, field.shape, objects);
  }
  for (const Shape& part : shape.parts) collect_objects(place, part, objects);
}

Objects all_objects() {
  Objects objects;
  collect_objects("workflow", workflow_shape(), objects);
  collect_objects("step", step_shape(), objects);
  for (const StepKind& kind : step_kinds()) collect_objects(kind.name, kind.with, objects);
  return objects;
}

std::string type_of(const Shape& shape) {
  if (shape.type == Shape::Type::Choice) return "`" + join(shape.choices, "`, `") + "`";
  if (shape.type == Shape::Type::Either) {
    std::vector<std::string> alternatives;
    for (const Shape& part : shape.parts) alternatives.push_back(type_of(part));
    return join(alternatives, " or ");
  }
  if (shape.type == Shape::Type::Boolean) return "boolean";
  std::string type = describe(shape);
  for (const std::string article : {"a ", "an ", "non-empty "}) {
    if (type.starts_with(article)) type.erase(0, article.size());
  }
  const bool of_choices =
      shape.type == Shape::Type::List && type_of(shape.parts[0]).find('`') != std::string::npos;
  return of_choices ? type + " of " + type_of(shape.parts[0]) : type;
}

/// Splits a description from the default at its end, as in "Samples per step; 128 unless given".
std::pair<std::string, std::string> without_default(std::string description) {
  for (const std::string_view end : {", unless given", " unless given"}) {
    const size_t begin = description.rfind("; ");
    if (!description.ends_with(end) || begin == std::string::npos) continue;
    const size_t size = description.size() - end.size() - begin - 2;
    return {description.substr(0, begin), description.substr(begin + 2, size)};
  }
  return {std::move(description), ""};
}

std::string default_of(const Field& field) {
  if (field.presence == Presence::Required) return "required";
  if (field.fallback.is_string()) return "`" + field.fallback.get<std::string>() + "`";
  return field.fallback.is_null() ? without_default(field.description).second
                                  : "`" + field.fallback.dump() + "`";
}

std::string expressions_of(const Field& field) {
  static const std::vector<std::string> names = {"none", "params", "matrix", "all"};
  return names.at(size_t(field.scope.value_or(Scope::Nothing)));
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += cell.empty() ? " |" : " " + cell + " |";
  return line + "\n";
}

/// Returns the keys of `object` as a table in Markdown, with a column for allowed references in
/// expressions if these differ between keys.
std::string table_of(const Shape& object) {
  const bool scoped = std::ranges::any_of(
      object.fields, [](const Field& field) { return field.scope.has_value(); });
  std::string table =
      scoped ? "| key | type | expressions | default | meaning |\n|---|---|---|---|---|\n"
             : "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Field& field : object.fields) {
    std::vector<std::string> cells = {"`" + field.name + "`", type_of(field.shape)};
    if (scoped) cells.push_back(expressions_of(field));
    cells.push_back(default_of(field));
    cells.push_back(without_default(field.description).first);
    table += row(cells);
  }
  return table;
}

/// Returns `page` with the table of each object whose marker it has; adds their paths to `found`.
std::string with_tables(const std::string& page, const Objects& objects,
                        std::multiset<std::string>& found) {
  std::string result;
  bool in_table = false;
  for (std::string line : split(page, '\n')) {
    if (in_table && line.starts_with("|")) continue;
    in_table = line.starts_with(kMarker);
    result += line + "\n";
    if (!in_table) continue;
    const std::string place = line.substr(kMarker.size(), line.find(" -->") - kMarker.size());
    INFO(place);
    REQUIRE(objects.contains(place));
    found.insert(place);
    result += table_of(*objects.at(place));
  }
  result.pop_back();  // the last line has no newline after it
  return result;
}

std::vector<std::filesystem::path> user_pages() {
  std::vector<std::filesystem::path> pages;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(USER_PAGES)) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

/// Returns the names in backquotes that begin a row of a table.
std::set<std::string> documented_names(const std::string& document) {
  std::set<std::string> names;
  for (const std::string& line : split(document, '\n')) {
    if (!line.starts_with("| `")) continue;
    const std::string word = line.substr(3, line.find('`', 3) - 3);
    names.insert(word.substr(0, word.find_first_of("(. ")));
  }
  return names;
}

}  // namespace

/// With DLFLOW_UPDATE in the environment this test writes the tables instead.
TEST_CASE("the pages for users have a table of every object's keys, as the parser checks them",
          "[documents]") {
  const Objects objects = all_objects();
  std::multiset<std::string> found;
  for (const std::filesystem::path& page : user_pages()) {
    const std::string text = read_file(page);
    const std::string wanted = with_tables(text, objects, found);
    INFO(page << "; write its tables by: DLFLOW_UPDATE=1 build/tests/model_test [documents]");
    if (std::getenv("DLFLOW_UPDATE") == nullptr) {
      CHECK(text == wanted);
    } else if (text != wanted) {
      write_file(page, wanted);
    }
  }
  std::multiset<std::string> places;
  for (const auto& [place, shape] : objects) places.insert(place);
  CHECK(found == places);
}

TEST_CASE("docs/user/format/expressions.md has every function, and no other", "[documents]") {
  std::set<std::string> known = {"params", "matrix", "run",
                                 "steps"};  // references have a table as well
  for (const Function& function : expression_functions()) known.insert(std::string(function.name));
  known.erase("max");  // in the row of min

  CHECK(documented_names(read_file(USER_PAGES "/format/expressions.md")) == known);
}

TEST_CASE("the pages of the kinds list the outputs of every kind", "[documents]") {
  const std::string pages =
      read_file(USER_PAGES "/format/kinds.md") + read_file(USER_PAGES "/format/train.md");
  for (const StepKind& kind : step_kinds()) {
    const size_t begin = pages.find("# `uses: " + kind.name + "`");
    INFO(kind.name);
    REQUIRE(begin != std::string::npos);
    const std::string section = pages.substr(begin, pages.find("\n<!-- keys", begin) - begin);
    for (const Field& output : kind.outputs) {
      CHECK_THAT(section, Catch::Contains("`" + output.name + "`"));
    }
  }
}
