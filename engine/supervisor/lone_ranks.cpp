#include "engine/supervisor/lone_ranks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

namespace dlflow {
namespace {

/// Of accelerate, Lightning, transformers, and scripts that print their world.
constexpr std::array<std::string_view, 6> kWorldsOfOne = {
    "Num processes: 1", "MEMBER: 1/1",   "distributed training: False",
    "world size: 1",    "world_size: 1", "world_size=1"};

/// How often `words` are in `output`, and no digit follows.
int count(std::string_view output, std::string_view words) {
  int found = 0;
  for (size_t at = output.find(words); at != output.npos; at = output.find(words, at)) {
    at += words.size();
    if (at == output.size() || !std::isdigit(static_cast<unsigned char>(output[at]))) ++found;
  }
  return found;
}

}  // namespace

std::string warning_of_lone_ranks(std::string_view output, int ranks) {
  const auto said = std::ranges::find_if(
      kWorldsOfOne, [&](std::string_view words) { return count(output, words) >= ranks; });
  if (ranks < 2 || said == kWorldsOfOne.end()) return "";
  return "warning: each of the " + std::to_string(ranks) + " ranks printed '" + std::string(*said) +
         "': they train alone and not together. Tell the framework the number of its ranks "
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
