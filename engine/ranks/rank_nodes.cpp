#include "engine/ranks/rank_nodes.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"

namespace dlflow {
namespace {

constexpr size_t kMostNodes = 1'000'000;

/// Returns 0 if `text` is not a number.
int count_in(std::string_view text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max(0, value);
}

/// Expands "n" and "1-2,08" to n1 n2 n08.
void expand_ranges(const std::string& prefix, std::string_view ranges, std::string_view rest,
                   std::vector<std::string>& names) {
  for (const std::string& range : split(ranges, ',')) {
    const size_t dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const int last = dash == range.npos ? count_in(first) : count_in(range.substr(dash + 1));
    for (int number = count_in(first); number <= last && names.size() < kMostNodes; ++number) {
      std::string digits = std::to_string(number);
      digits.insert(0, first.size() - std::min(first.size(), digits.size()), '0');
      for (std::string& name : expand_node_list(prefix + digits + std::string(rest))) {
        names.push_back(std::move(name));
      }
    }
  }
}

/// Splits at commas outside of brackets.
std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : ',';
    depth += (c == '[') - (c == ']');
    if (c != ',' || (depth > 0 && i < list.size())) continue;
    if (i > begin) parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

std::vector<RankNode> slurm_nodes(const ReadVariable& variable) {
  const std::vector<int> counts = expand_task_counts(variable("SLURM_TASKS_PER_NODE"));
  std::vector<RankNode> nodes;
  for (std::string& name : expand_node_list(variable("SLURM_JOB_NODELIST"))) {
    const int count = nodes.size() < counts.size() ? counts[nodes.size()] : 0;
    nodes.push_back({std::move(name), count});
  }
  return nodes;
}

/// Reads lines "node7 4 all.q@node7 UNDEFINED": a node and its slots, which are cores.
std::vector<RankNode> gridengine_nodes(int cpus_per_rank, const ReadVariable& variable) {
  const std::string file = variable("PE_HOSTFILE");
  std::vector<RankNode> nodes;
  if (file.empty()) return nodes;
  for (const std::string& line : split(read_file_if_exists(file).value_or(""), '\n')) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() >= 2) nodes.push_back({words[0], count_in(words[1]) / cpus_per_rank});
  }
  return nodes;
}

/// Fills the nodes in order until all ranks are placed. If there is not enough room, distributes
/// the ranks evenly.
void place(int ranks, std::vector<RankNode>& nodes) {
  const int room = std::accumulate(nodes.begin(), nodes.end(), 0,
                                   [](int sum, const RankNode& n) { return sum + n.ranks; });
  const auto num_nodes = int(nodes.size());
  int left = ranks;
  for (int i = 0; i < num_nodes; ++i) {
    const int fair = ranks / num_nodes + (i < ranks % num_nodes ? 1 : 0);
    nodes[size_t(i)].ranks = room < ranks ? fair : std::min(left, nodes[size_t(i)].ranks);
    left -= nodes[size_t(i)].ranks;
  }
  std::erase_if(nodes, [](const RankNode& node) { return node.ranks == 0; });
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : split_list(list)) {
    const size_t open = part.find('[');
    const size_t close = part.find(']', open);
    if (open == part.npos || close == part.npos) {
      names.emplace_back(part);
      continue;
    }
    expand_ranges(std::string(part.substr(0, open)), part.substr(open + 1, close - open - 1),
                  part.substr(close + 1), names);
  }
  return names;
}

std::vector<int> expand_task_counts(std::string_view counts) {
  std::vector<int> all;
  for (const std::string& part : split(counts, ',')) {
    if (part.empty()) continue;
    const size_t times = part.find("(x");
    const int repeated =
        times == part.npos ? 1 : count_in(std::string_view(part).substr(times + 2));
    all.insert(all.end(), std::min(size_t(repeated), kMostNodes), count_in(part));
  }
  return all;
}

std::vector<RankNode> rank_nodes(int ranks, int cpus_per_rank, const ReadVariable& variable) {
  std::vector<RankNode> nodes = slurm_nodes(variable);
  if (nodes.empty()) nodes = gridengine_nodes(cpus_per_rank, variable);
  if (ranks == 1 || nodes.empty()) return {{host_name(), ranks}};
  place(ranks, nodes);
  return nodes;
}

bool is_outside_of_nodes() {
  return !environment_variable("SLURM_JOB_NODELIST").empty() &&
         environment_variable("SLURMD_NODENAME").empty();
}

std::vector<std::string> srun_per_node(const RankPlan& plan, int cpus_per_rank, int gpus_per_rank) {
  const std::string nodes = std::to_string(plan.num_programs());
  std::vector<std::string> words = {"-N", nodes, "-n", nodes, "--ntasks-per-node=1"};
  const int on_first = plan.nodes.front().ranks;
  const bool is_even =
      std::ranges::all_of(plan.nodes, [&](const RankNode& node) { return node.ranks == on_first; });
  if (!is_even) {  // then it has all GPUs of the job there, unless their number is given
    words.emplace_back("--cpu-bind=none");
    return words;
  }
  words.insert(words.end(), {"-c", std::to_string(on_first * cpus_per_rank)});
  if (!environment_variable("SLURM_GPUS_PER_TASK").empty()) {
    words.push_back("--gpus-per-task=" + std::to_string(on_first * gpus_per_rank));
  }
  return words;
}

}  // namespace dlflow
