#include "engine/model/profile_text.h"

#include <array>

#include "base/text.h"

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
    text += key + ":" + (value.empty() ? "" : " " + value) + "\n";
  };
  add("name", yaml_text(profile.name));
  add("scheduler", yaml_text(profile.scheduler));
  add("cores", std::to_string(profile.cores));
  add("memory", yaml_size(profile.memory_bytes));
  add("gpus", std::to_string(profile.gpus));
  add("slurm", "");
  add("  partition", yaml_text(profile.slurm.partition));
  add("  account", yaml_text(profile.slurm.account));
  add("  qos", yaml_text(profile.slurm.qos));
  add("  constraint", yaml_text(profile.slurm.constraint));
  add("  reservation", yaml_text(profile.slurm.reservation));
  add("  exclusive", profile.slurm.exclusive ? "true" : "false");
  add("  gres", yaml_text(profile.slurm.gres));
  add("  options", list(profile.slurm.options));
  add("gridengine", "");
  add("  queue", yaml_text(profile.gridengine.queue));
  add("  project", yaml_text(profile.gridengine.project));
  add("  parallel_environment", yaml_text(profile.gridengine.parallel_environment));
  add("  memory", yaml_text(profile.gridengine.memory));
  add("  gpus", yaml_text(profile.gridengine.gpus));
  add("  options", list(profile.gridengine.options));
  add("ranks_per_node", std::to_string(profile.ranks_per_node));
  add("node", "");
  add("  cores", std::to_string(profile.node.cores));
  add("  memory", yaml_size(profile.node.memory_bytes));
  add("  gpus", std::to_string(profile.node.gpus));
  add("limits", "");
  add("  walltime", yaml_duration(profile.limits.walltime));
  add("  nodes", std::to_string(profile.limits.nodes));
  add("  array_size", std::to_string(profile.limits.array_size));
  add("  array_throttle", std::to_string(profile.limits.array_throttle));
  add("  jobs", std::to_string(profile.limits.jobs));
  add("  dependencies", std::to_string(profile.limits.dependencies));
  add("  submit_interval", yaml_duration(profile.limits.submit_interval));
  add("launcher", "");
  add("  program", yaml_text(profile.launcher.program));
  add("  arguments", list(profile.launcher.arguments));
  add("container", "");
  add("  runtime", yaml_text(profile.container.runtime));
  add("  command", list(profile.container.command));
  add("  mode", yaml_text(profile.container.mode));
  add("  arguments", list(profile.container.arguments));
  add("  binds", list(profile.container.binds));
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
  return text;
}

}  // namespace dlflow
