#include <getopt.h>

#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

constexpr Option kOptions[] = {
    {"all", 'a', no_argument},          {"exact", 'e', no_argument},
    {"format", 'o', required_argument}, {"Node", 'N', no_argument},
    {"noheader", 'h', no_argument},     {"partition", 'p', required_argument},
    {"summarize", 's', no_argument},    {"version", 'V', no_argument}};

int taken_cpus(const World& world, const std::string& node) {
  int cpus = 0;
  for (const Job& job : world.jobs) {
    for (const Task& task : job.tasks) {
      if (task.state == State::Pending || is_over(world, task)) continue;
      for (const Share& share : task.shares) cpus += share.node == node ? share.cpus : 0;
    }
  }
  return cpus;
}

std::string node_state(const World& world, const Node& node) {
  const int taken = taken_cpus(world, node.name);
  return taken == 0 ? "idle" : taken < node.cpus ? "mixed" : "allocated";
}

/// Nodes that look alike are one line.
struct Line {
  const Partition* partition;
  std::vector<Node> nodes;
  std::string state;
};

bool alike(const Line& line, const Node& node, const std::string& state) {
  const Node& first = line.nodes.front();
  return line.state == state && first.cpus == node.cpus && first.memory_mb == node.memory_mb &&
         first.gpus == node.gpus;
}

std::vector<Line> lines(const World& world, const Words& words) {
  const std::string* only = words.find("partition");
  std::vector<Line> list;
  for (const Partition& partition : world.config.partitions) {
    if (only != nullptr && *only != partition.name) continue;
    const size_t begin = list.size();
    for (const Node& node : world.config.nodes) {
      const std::string state = node_state(world, node);
      size_t at = begin;
      while (at < list.size() && (words.has("Node") || !alike(list[at], node, state))) ++at;
      if (at == list.size()) list.push_back({&partition, {}, state});
      list[at].nodes.push_back(node);
    }
  }
  return list;
}

std::string field(char letter, const Line& line) {
  std::vector<std::string> names;
  for (const Node& node : line.nodes) names.push_back(node.name);
  const Node& node = line.nodes.front();
  const int limit = line.partition->max_minutes;
  switch (letter) {
    case 'P':
      return line.partition->name + (line.partition->is_default ? "*" : "");
    case 'R':
      return line.partition->name;
    case 'a':
      return "up";
    case 'l':
      return limit == 0 ? "infinite" : stop_watch(limit * 60);
    case 'D':
      return std::to_string(line.nodes.size());
    case 'c':
      return std::to_string(node.cpus);
    case 'm':
      return std::to_string(node.memory_mb);
    case 'G':
      return node.gpus == 0 ? "(null)" : "gpu:" + std::to_string(node.gpus);
    case 'N':
      return host_list(names);
    case 'n':
      return node.name;
    case 'T':
      return line.state;
    case 't':
      return line.state == "mixed" ? "mix" : line.state == "allocated" ? "alloc" : "idle";
    case 'f':
      return "(null)";
    case 'X':
      return "1";
    case 'Y':
      return std::to_string(node.cpus);
    case 'Z':
      return "1";
    case 's':
      return "1-infinite";
    default:
      return "";
  }
}

const char* header(char letter) {
  switch (letter) {
    case 'P':
    case 'R':
      return "PARTITION";
    case 'a':
      return "AVAIL";
    case 'l':
      return "TIMELIMIT";
    case 'D':
      return "NODES";
    case 'c':
      return "CPUS";
    case 'm':
      return "MEMORY";
    case 'G':
      return "GRES";
    case 'N':
      return "NODELIST";
    case 'n':
      return "HOSTNAMES";
    case 'T':
    case 't':
      return "STATE";
    case 'f':
      return "AVAIL_FEATURES";
    case 'X':
      return "SOCKETS";
    case 'Y':
      return "CORES";
    case 'Z':
      return "THREADS";
    case 's':
      return "JOB_SIZE";
    default:
      return "";
  }
}

/// Replaces each % of `format` by what `text_of` says, in its width.
template <typename TextOf>
std::string fill(const std::string& format, const TextOf& text_of) {
  std::string line;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      line += format[at];
      continue;
    }
    const bool right = format[++at] == '.';
    if (right) ++at;
    size_t width = 0;
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
      width = width * 10 + size_t(format[at] - '0');
    }
    std::string text = at < format.size() ? text_of(format[at]) : "";
    if (width > 0 && text.size() > width) text.resize(width);
    const std::string space(width > text.size() ? width - text.size() : 0, ' ');
    line += right ? space + text : text + space;
  }
  return line + "\n";
}

}  // namespace

int sinfo(Call& call) {
  const auto words = parse_words(call.argv(), kOptions);
  if (!words) {
    call.err = "Try \"sinfo --help\" for more information\n";
    return 1;
  }
  if (words->has("version")) {
    call.out = version_text(call.world().config.version) + "\n";
    return 0;
  }
  try {
    call.request();
    call.reply();
  } catch (const Unreachable& error) {
    call.err = "slurm_load_partitions: " + error.text + "\n";
    return 1;
  }
  const std::string* given = words->find("format");
  const std::string format = given == nullptr ? "%9P %.5a %.10l %.6D %.6t %N" : *given;
  if (!words->has("noheader"))
    call.out += fill(format, [](char letter) { return std::string(header(letter)); });
  for (const Line& line : lines(call.world(), *words)) {
    call.out += fill(format, [&](char letter) { return field(letter, line); });
  }
  return 0;
}

}  // namespace dlflow::fake_slurm
