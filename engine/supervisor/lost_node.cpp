#include "engine/supervisor/lost_node.h"

#include <csignal>
#include <cstdlib>

#include "base/text.h"

namespace dlflow {
namespace {

/// As batch systems know it: without its domain.
std::string short_name(std::string_view node) {
  return std::string(node.substr(0, node.find_first_of(". \n\r")));
}

/// The last node of which ranks said that it died; empty if they named several.
std::string node_of_the_dead(std::string_view text) {
  constexpr std::string_view kNode = "(node ";
  const size_t died = text.rfind(" died: killed, crashed, or its node went down");
  if (died == text.npos) return "";
  const size_t line_begin = text.rfind('\n', died) + 1;  // 0 without any
  const std::string_view line = text.substr(line_begin, died - line_begin);
  const size_t found = line.find(kNode);
  if (found == line.npos || line.rfind(kNode) != found || !line.ends_with(")")) return "";
  const std::string_view rest = line.substr(found + kNode.size());
  return short_name(rest.substr(0, rest.size() - 1));
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

std::optional<std::string> lost_node(std::string_view text) {
  const size_t lost = text.find("has lost communication with a remote daemon");
  if (lost != text.npos) {
    constexpr std::string_view kNode = " on node ";
    const size_t daemon = text.find("Remote daemon", lost);
    const size_t node = daemon == text.npos ? daemon : text.find(kNode, daemon);
    return node == text.npos ? "" : short_name(text.substr(node + kNode.size()));
  }
  const bool gave_up = text.find("srun: error: Timed out waiting for job step") != text.npos;
  return gave_up ? std::optional(node_of_the_dead(text)) : std::nullopt;
}

}  // namespace dlflow
