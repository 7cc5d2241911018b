#include "runtime/nn/recomputation.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/units.h"

namespace dlflow::runtime {
namespace {

/// Operations in `parts` segments of about equal memory.
std::vector<Segment> cut(const std::vector<size_t>& bytes, size_t parts) {
  const size_t total = std::accumulate(bytes.begin(), bytes.end(), size_t{0});
  std::vector<Segment> segments;
  size_t sum = 0;
  int begin = 0;
  for (int i = 0; i < int(bytes.size()); ++i) {
    sum += bytes[size_t(i)];
    const bool is_full = sum * parts >= total * (segments.size() + 1);
    if (!is_full && i + 1 < int(bytes.size())) continue;
    segments.push_back({begin, i + 1});
    begin = i + 1;
  }
  return segments;
}

}  // namespace

std::vector<Segment> choose_segments(Arena& arena, int num_operations, size_t most_bytes,
                                     size_t beside) {
  const auto measure = [&](const std::vector<Segment>& segments) {
    return arena.measure(Schedule(num_operations, segments)) + beside;
  };
  size_t least = measure({});
  if (least <= most_bytes) return {};
  const std::vector<size_t> bytes = arena.bytes_written(num_operations);
  for (const size_t parts : {2, 3, 4, 6, 8, 12, 16, 24, 32}) {
    std::vector<Segment> segments = cut(bytes, parts);
    segments.pop_back();
    const size_t needed = measure(segments);
    least = std::min(least, needed);
    if (needed > most_bytes) continue;
    for (size_t few = 1; few < segments.size(); ++few) {
      std::vector<Segment> first(segments.begin(), segments.begin() + long(few));
      if (measure(first) <= most_bytes) return first;
    }
    return segments;
  }
  throw Error(Errc::InvalidInput,
              "the results of layers and their gradients take " + format_size(least) +
                  " at least, of which most are computed twice then; 'activation_memory' is " +
                  format_size(most_bytes) + ": give more, or a smaller batch");
}

}  // namespace dlflow::runtime
