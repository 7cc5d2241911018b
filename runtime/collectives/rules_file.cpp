#include "runtime/collectives/rules_file.h"

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"

namespace dlflow::runtime {
namespace {

/// Returns "2x4" for "2x4 allreduce=...".
std::string_view shape_of(std::string_view line) { return line.substr(0, line.find(' ')); }

std::string_view without_comment(std::string_view line) {
  return trim(line.substr(0, line.find('#')));
}

}  // namespace

RuleSet rules_for_shape(std::string_view text, const std::string& shape,
                        const std::filesystem::path& path) {
  size_t number = 0;
  for (const std::string& whole : split(text, '\n')) {
    ++number;
    const std::string_view line = without_comment(whole);
    if (shape_of(line) != shape) continue;
    return parse_rules(line.substr(shape.size()), path.string() + ":" + std::to_string(number));
  }
  return {};
}

void store_rules(const std::filesystem::path& path, const std::string& shape, const RuleSet& rules,
                 const std::string& comment) {
  std::string text;
  for (const std::string& line : split(read_file_if_exists(path).value_or(""), '\n')) {
    if (!line.empty() && shape_of(without_comment(line)) != shape) text += line + "\n";
  }
  text += shape + " " + to_text(rules) + "  # " + comment + "\n";
  if (path.has_parent_path()) make_output_folder(path.parent_path());
  write_output(path, text);
}

}  // namespace dlflow::runtime
