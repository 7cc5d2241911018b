#include "tests/support/fake_slurm/configure.h"

#include <cstdlib>

#include "base/error.h"
#include "base/text.h"

namespace dlflow::fake_slurm {
namespace {

std::vector<std::string> list_of(const std::string& value) {
  return value.empty() ? std::vector<std::string>() : split(value, ',');
}

void resize(Config& config, int count) {
  const Node model = config.nodes.front();
  config.nodes.clear();
  for (int i = 1; i <= count; ++i) {
    config.nodes.push_back(model);
    config.nodes.back().name = config.cluster + "-n" + std::to_string(i);
  }
}

/// batch,short:5,gpu:1440: name and longest minutes; the first is the default.
std::vector<Partition> partitions_of(const std::string& value) {
  std::vector<Partition> partitions;
  for (const std::string& word : split(value, ',')) {
    const size_t colon = word.find(':');
    const int minutes = colon == word.npos ? 0 : std::atoi(word.c_str() + colon + 1);
    partitions.push_back({word.substr(0, colon), minutes, partitions.empty()});
  }
  return partitions;
}

/// 22.05 as 2205.
int version_of(const std::string& value) {
  const size_t dot = value.find('.');
  if (dot == value.npos) return 0;
  return std::atoi(value.c_str()) * 100 + std::atoi(value.c_str() + dot + 1);
}

bool set_number(Config& config, const std::string& key, int value) {
  const std::pair<const char*, int*> numbers[] = {{"max_array_size", &config.max_array_size},
                                                  {"max_job_count", &config.max_job_count},
                                                  {"max_submit", &config.max_submit},
                                                  {"min_job_age", &config.min_job_age},
                                                  {"requeue_delay", &config.requeue_delay},
                                                  {"configure_seconds", &config.configure_seconds},
                                                  {"complete_seconds", &config.complete_seconds}};
  for (const auto& [name, field] : numbers) {
    if (key != name) continue;
    *field = value;
    return true;
  }
  return false;
}

}  // namespace

void configure(World& world, const std::string& setting) {
  Config& config = world.config;
  const size_t equals = setting.find('=');
  const std::string key = setting.substr(0, equals);
  const std::string value = equals == setting.npos ? "" : setting.substr(equals + 1);
  const int number = std::atoi(value.c_str());
  const bool yes = value == "on" || value == "yes" || value == "1";
  if (set_number(config, key, number)) return;
  if (key == "nodes") {
    resize(config, std::max(1, number));
  } else if (key == "cpus") {
    for (Node& node : config.nodes) node.cpus = number;
  } else if (key == "memory_mb") {
    for (Node& node : config.nodes) node.memory_mb = number;
  } else if (key == "gpus") {
    for (Node& node : config.nodes) node.gpus = number;
  } else if (key == "partitions") {
    config.partitions = partitions_of(value);
  } else if (key == "accounts") {
    config.accounts = list_of(value);
  } else if (key == "qos") {
    config.qos = list_of(value);
  } else if (key == "accounting") {
    config.accounting = yes;
  } else if (key == "federation") {
    config.federation = yes;
  } else if (key == "requeue_by_default") {
    config.requeue_by_default = yes;
  } else if (key == "version") {
    config.version = version_of(value);
  } else if (key == "cluster") {
    config.cluster = value;
    resize(config, int(config.nodes.size()));
  } else if (key == "next_id") {
    world.next_id = JobId(number);
  } else {
    throw Error(Errc::InvalidInput, "'" + setting + "' is no setting of fake-slurm; see README.md");
  }
}

}  // namespace dlflow::fake_slurm
