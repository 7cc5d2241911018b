#include "engine/model/profile_text.h"

#include <array>

#include "base/text.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

bool is_plain(const std::string& text) {
  constexpr std::string_view kFirstLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
  constexpr std::string_view kFurther = "0123456789-.+";
  constexpr std::array<std::string_view, 7> kOtherTypes = {"true", "false", "null", "yes",
                                                           "no",   "on",    "off"};
  if (text.empty() || kFirstLetters.find(text[0]) == kFirstLetters.npos) return false;
  std::string lower = text;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  for (const std::string_view word : kOtherTypes) {
    if (lower == word) return false;
  }
  return lower.find_first_not_of(std::string(kFirstLetters) + std::string(kFurther)) == lower.npos;
}

std::string list(const std::vector<std::string>& values) {
  std::vector<std::string> words;
  for (const std::string& value : values) words.push_back(yaml_text(value));
  return "[" + join(words, ", ") + "]";
}

void add_key(std::string& text, const std::string& key, const std::string& value) {
  text += key + ":" + (value.empty() ? "" : " " + value) + "\n";
}

/// Adds the fields of a section, see list_fields().
struct FieldText {
  std::string& text;
  std::string indent;

  void operator()(const char* key, const std::string& value) {
    add_key(text, indent + key, yaml_text(value));
  }
  void operator()(const char* key, bool value) {
    add_key(text, indent + key, value ? "true" : "false");
  }
  void operator()(const char* key, const std::vector<std::string>& values) {
    add_key(text, indent + key, list(values));
  }
};

template <class Section>
void add_section(std::string& text, const std::string& key, Section section,
                 const std::string& indent) {
  add_key(text, indent + key, "");
  FieldText fields{text, indent + "  "};
  list_fields(fields, section);
}

std::string yaml_value(const Json& value) {
  if (value.is_string()) return yaml_text(value);
  return value.is_array() ? list(value.get<std::vector<std::string>>()) : value.dump();
}

void add_batch_options(std::string& text, const BatchOptions& options, const std::string& indent) {
  for (const auto& [system, section] : batch_sections()) {
    add_key(text, indent + system, "");
    const auto own = options.find(system);
    for (const Field& field : section.options.fields) {
      const bool is_set = own != options.end() && own->second.contains(field.name);
      const Json& value = is_set ? own->second.at(field.name) : field.fallback;
      add_key(text, indent + "  " + field.name, yaml_value(value));
    }
  }
}

void add_node(std::string& text, const NodeShape& node, const std::string& indent) {
  add_key(text, indent + "node", "");
  add_key(text, indent + "  cores", std::to_string(node.cores));
  add_key(text, indent + "  memory", yaml_size(node.memory_bytes));
  add_key(text, indent + "  gpus", std::to_string(node.gpus));
}

void add_class(std::string& text, const NodeClass& node_class) {
  const std::string indent = "    ";
  add_key(text, "  " + yaml_text(node_class.name), "");
  if (node_class.local) add_key(text, indent + "local", "true");
  add_batch_options(text, node_class.batch_options, indent);
  add_key(text, indent + "ranks_per_node", std::to_string(node_class.ranks_per_node));
  add_node(text, node_class.node, indent);
  add_key(text, indent + "limits", "");
  add_key(text, indent + "  walltime", yaml_duration(node_class.limits.walltime));
  add_key(text, indent + "  nodes", std::to_string(node_class.limits.nodes));
  add_key(text, indent + "  array_throttle", std::to_string(node_class.limits.array_throttle));
  add_section(text, "launcher", node_class.launcher, indent);
  add_key(text, indent + "setup", list(node_class.setup));
}

}  // namespace

std::string yaml_text(const std::string& text) {
  if (is_plain(text)) return text;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string yaml_size(uint64_t bytes) {
  constexpr uint64_t kMebibyte = uint64_t{1} << 20;
  if (bytes > 0 && bytes % (kMebibyte << 10) == 0) {
    return std::to_string(bytes / (kMebibyte << 10)) + "GiB";
  }
  if (bytes > 0 && bytes % kMebibyte == 0) return std::to_string(bytes / kMebibyte) + "MiB";
  return std::to_string(bytes);
}

std::string yaml_duration(std::chrono::seconds duration) {
  const int64_t count = duration.count();
  if (count == 0) return "0";
  if (count % 86400 == 0) return std::to_string(count / 86400) + "d";
  if (count % 3600 == 0) return std::to_string(count / 3600) + "h";
  if (count % 60 == 0) return std::to_string(count / 60) + "m";
  return std::to_string(count) + "s";
}

std::string profile_as_yaml(const Profile& profile) {
  std::string text;
  const auto add = [&text](const std::string& key, const std::string& value) {
    add_key(text, key, value);
  };
  add("name", yaml_text(profile.name));
  add("scheduler", yaml_text(profile.scheduler));
  add("cores", std::to_string(profile.cores));
  add("memory", yaml_size(profile.memory_bytes));
  add("gpus", std::to_string(profile.gpus));
  add_batch_options(text, profile.batch_options, "");
  add("ranks_per_node", std::to_string(profile.ranks_per_node));
  add_node(text, profile.node, "");
  add("limits", "");
  add("  walltime", yaml_duration(profile.limits.walltime));
  add("  nodes", std::to_string(profile.limits.nodes));
  add("  array_size", std::to_string(profile.limits.array_size));
  add("  array_throttle", std::to_string(profile.limits.array_throttle));
  add("  jobs", std::to_string(profile.limits.jobs));
  add("  dependencies", std::to_string(profile.limits.dependencies));
  add("  submit_interval", yaml_duration(profile.limits.submit_interval));
  add_section(text, "launcher", profile.launcher, "");
  add_section(text, "container", profile.container, "");
  add("setup", list(profile.setup));
  add("environment", profile.environment.empty() ? "{}" : "");
  for (const auto& [name, value] : profile.environment) add("  " + name, yaml_text(value));
  add("inherit", list(profile.inherit));
  add("paths", "");
  add("  runs", yaml_text(profile.runs.string()));
  add("  cache", yaml_text(profile.cache.string()));
  add("  scratch", yaml_text(profile.scratch.string()));
  add("cache_budget", yaml_size(profile.cache_budget_bytes));
  add("scratch_budget", yaml_size(profile.scratch_budget_bytes));
  add("exclude_nodes", std::to_string(profile.exclude_nodes));
  add("submit_from_jobs", profile.submit_from_jobs ? "true" : "false");
  add("classes", profile.classes.empty() ? "{}" : "");
  for (const NodeClass& node_class : profile.classes) add_class(text, node_class);
  return text;
}

}  // namespace dlflow
