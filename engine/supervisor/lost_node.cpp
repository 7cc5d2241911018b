#include "engine/supervisor/lost_node.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/text.h"

namespace dlflow {
namespace {

/// The host name at the beginning of `text`, without its domain, as batch systems use it. A program
/// may have printed it, and it becomes part of commands.
std::string short_name(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  return std::string(text.substr(0, text.find_first_not_of(kLetters)));
}

/// The last node that ranks reported as dead or silent; empty if they named several.
std::string node_of_the_dead(std::string_view text) {
  constexpr std::string_view kNode = "(node ";
  size_t died = text.rfind(" died: killed, crashed, or its node went down");
  if (died == text.npos) died = text.rfind(": silent for ");
  if (died == text.npos) return "";
  const size_t line_begin = text.rfind('\n', died) + 1;  // 0 without any
  const std::string_view line = text.substr(line_begin, died - line_begin);
  const size_t found = line.find(kNode);
  if (found == line.npos || line.rfind(kNode) != found || !line.ends_with(")")) return "";
  const std::string_view rest = line.substr(found + kNode.size());
  return short_name(rest.substr(0, rest.size() - 1));
}

/// The text after `before`, on the line that begins with or contains `mark`.
std::optional<std::string> named(std::string_view text, std::string_view mark,
                                 std::string_view before) {
  const size_t at = text.find(mark);
  if (at == text.npos) return std::nullopt;
  const size_t node = text.find(before, at);
  if (node == text.npos) return std::nullopt;
  return short_name(text.substr(node + before.size()));
}

/// Open MPI's mpirun has lost a node.
constexpr std::string_view kLostDaemon = "has lost communication with a remote daemon";

/// Lines of accelerate, Lightning, transformers, and scripts that print their world.
constexpr std::array<std::string_view, 6> kWorldsOfOne = {
    "Num processes: 1", "MEMBER: 1/1",   "distributed training: False",
    "world size: 1",    "world_size: 1", "world_size=1"};

/// The number of times that `words` occur in `output` without a digit after them.
int count(std::string_view output, std::string_view words) {
  int found = 0;
  for (size_t at = output.find(words); at != output.npos; at = output.find(words, at)) {
    at += words.size();
    if (at == output.size() || !std::isdigit(static_cast<unsigned char>(output[at]))) ++found;
  }
  return found;
}

}  // namespace

std::optional<int> bad_end_of_task(std::string_view text) {
  constexpr std::string_view kExit = ": Exited with exit code ";
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with("srun: error: ") || line.find(": task") == line.npos) continue;
    const size_t exit = line.find(kExit);
    if (exit == line.npos) return 128 + SIGKILL;
    return std::atoi(line.c_str() + exit + kExit.size());
  }
  return std::nullopt;
}

bool lost_daemon(std::string_view text) { return text.find(kLostDaemon) != text.npos; }

std::optional<std::string> lost_node(std::string_view text) {
  const size_t mpirun = text.find(kLostDaemon);
  if (mpirun != text.npos) {
    const auto node = named(text.substr(mpirun), "Remote daemon", " on node ");
    return node ? node : node_of_the_dead(text);
  }
  if (const auto node = named(text, "srun: error: Node failure", " on ")) {
    const std::string dead = node_of_the_dead(text);  // SLURM 24.11 may name another of the job
    return dead.empty() ? node : dead;
  }
  if (const auto node = named(text, "srun: error: Task launch", " on node ")) return node;
  const bool is_lost = text.find("srun: error: Timed out waiting for job step") != text.npos ||
                       was_not_launched(text);
  return is_lost ? std::optional(node_of_the_dead(text)) : std::nullopt;
}

bool was_not_launched(std::string_view text) {
  const size_t task = text.find("srun: error: task");
  const bool failed = task != text.npos && text.find(" launch failed: ", task) != text.npos;
  return failed || text.find("srun: error: Task launch for ") != text.npos ||
         text.find("daemon has unexpectedly failed after launch") != text.npos;
}

std::string warning_of_lone_ranks(std::string_view output, int ranks) {
  const auto said = std::ranges::find_if(
      kWorldsOfOne, [&](std::string_view words) { return count(output, words) >= ranks; });
  if (ranks < 2 || said == kWorldsOfOne.end()) return "";
  return "warning: each of the " + std::to_string(ranks) + " ranks printed '" + std::string(*said) +
         "': they train separately, not together. Give the framework its number of ranks "
         "(docs/user/ranks.md), or write resources: {ranks: 1}";
}

std::string warning_of_lone_ranks(const JobSpec& spec, const AttemptFiles& files) {
  if (!spec.uses.empty() || spec.resources.ranks < 2 || spec.launch == Launch::Node) return "";
  constexpr size_t kBeginning = 1 << 20;
  std::string output(kBeginning, '\0');
  size_t size = 0;
  for (const auto& file : {files.standard_output(), files.standard_error()}) {
    std::ifstream stream(file, std::ios::binary);
    stream.read(output.data() + size, std::streamsize(kBeginning / 2));
    size += size_t(stream.gcount());
  }
  return warning_of_lone_ranks({output.data(), size}, spec.resources.ranks);
}

}  // namespace dlflow
