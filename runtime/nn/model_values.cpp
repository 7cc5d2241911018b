#include "runtime/nn/model_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace dlflow::runtime {

double number_in(const YAML::Node& node) {
  return number_from<double>(node.IsScalar() ? node.Scalar() : "").value_or(std::nan(""));
}

YAML::Node attribute(const YAML::Node& attributes, const std::string& key) {
  return attributes.IsMap() ? attributes[key] : YAML::Node(YAML::NodeType::Undefined);
}

std::string ModelValues::text_of(const YAML::Node& given, const std::string& what,
                                 ModelScope* scope) {
  const YAML::Node node = resolve(given, scope);
  if (node.IsDefined() && node.IsScalar() && !node.Scalar().empty()) return node.Scalar();
  if (node.IsDefined()) report(node, what + " is a word");
  return {};
}

std::optional<int64_t> ModelValues::integer(const YAML::Node& given, const std::string& what,
                                            int64_t at_least, int64_t at_most, ModelScope* scope) {
  const YAML::Node node = resolve(given, scope);
  if (!node.IsDefined()) return {};
  const auto value = number_from<int64_t>(node.IsScalar() ? node.Scalar() : "");
  if (value && *value >= at_least && *value <= at_most) return value;
  report(node, what + " must be a whole number from " + std::to_string(at_least) + " to " +
                   std::to_string(at_most));
  return {};
}

bool ModelValues::boolean(const YAML::Node& attributes, const char* key, bool otherwise,
                          ModelScope& scope) {
  const YAML::Node node = resolve(attribute(attributes, key), &scope);
  if (!node.IsDefined()) return otherwise;
  if (node.IsScalar() && (node.Scalar() == "true" || node.Scalar() == "false")) {
    return node.Scalar() == "true";
  }
  report(node, "'" + std::string(key) + "' must be true or false");
  return otherwise;
}

double ModelValues::share(const YAML::Node& attributes, const char* key, double otherwise,
                          ModelScope& scope) {
  const YAML::Node node = resolve(attribute(attributes, key), &scope);
  if (!node.IsDefined()) return otherwise;
  const double value = number_in(node);
  if (value >= 0 && value < 1) return value;
  report(node, "'" + std::string(key) + "' must be a number from 0 to less than 1");
  return otherwise;
}

Extent ModelValues::extent(const YAML::Node& given, const std::string& what, int64_t at_least,
                           bool square, ModelScope& scope) {
  const YAML::Node node = resolve(given, &scope);
  if (!node.IsDefined() || square || !node.IsSequence()) {
    return integer(given, what, at_least, kMaxUnits, &scope).value_or(at_least);
  }
  if (node.size() != 2) {
    report(given, what + " must be a whole number or [height, width]");
    return at_least;
  }
  const auto side = [&](int i) {
    return integer(node[i], what, at_least, kMaxUnits, &scope).value_or(at_least);
  };
  return {side(0), side(1)};
}

void ModelValues::check_keys(const YAML::Node& map, const std::vector<std::string>& required,
                             const std::vector<std::string>& optional, const std::string& what,
                             const YAML::Node& at) {
  std::set<std::string> seen;
  std::vector<std::string> known = required;
  known.insert(known.end(), optional.begin(), optional.end());
  if (map.IsMap()) report_unknown_keys(map, known, what, seen);
  for (const std::string& key : required) {
    if (!seen.contains(key)) {
      report(at.IsNull() ? map : at, fmt::format("{} needs '{}'", what, key));
    }
  }
}

void ModelValues::report_unknown_keys(const YAML::Node& map, const std::vector<std::string>& known,
                                      const std::string& what, std::set<std::string>& seen) {
  for (const auto& item : map) {
    const std::string key = text_of(item.first, "a key");
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      report(item.first,
             fmt::format("unknown key '{}' in {}{}", key, what,
                         known.empty() ? ", which has none" : did_you_mean_or_list(key, known)));
    } else if (!seen.insert(key).second) {
      report(item.first, "'" + key + "' occurs twice");
    }
  }
}

/// Returns `node`, or, if it is a `$name`, the value that the block's use gives for it.
YAML::Node ModelValues::resolve(const YAML::Node& node, ModelScope* scope) {
  if (scope == nullptr || !node || !node.IsScalar() || !node.Scalar().starts_with("$")) return node;
  const std::string key = node.Scalar().substr(1);
  const auto found = scope->values.find(key);
  if (found == scope->values.end()) {
    report(node, "'$" + key + "' is not given" + scope->use);
    return YAML::Node(YAML::NodeType::Undefined);
  }
  scope->used_values.insert(key);
  return found->second;
}

void ModelValues::report(const YAML::Node& node, const std::string& message) {
  report(node.Mark().line + 1, node.Mark().column + 1, message);
}

void ModelValues::report(int line, int column, const std::string& message) {
  diagnostics_.push_back({file_, line, column, message});
}

void ModelValues::throw_mistakes() {
  if (!diagnostics_.empty()) throw ModelError(std::move(diagnostics_));
}

}  // namespace dlflow::runtime
