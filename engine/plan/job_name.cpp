#include "engine/plan/job_name.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "engine/plan/job.h"

namespace dlflow {
namespace {

/// "width=64,lr=0.1" -> its parts in one order.
std::vector<std::string> parts_of(std::string_view element) {
  std::vector<std::string> parts = split(element, ',');
  for (std::string& part : parts) part = std::string(trim(part));
  std::ranges::sort(parts);
  return parts;
}

}  // namespace

bool means_job(std::string_view word, std::string_view job) {
  if (word == job) return true;
  const std::string_view step = step_of(job);
  if (word == step) return true;
  if (element_of(job).empty() || step_of(word) != step || !word.ends_with(']')) return false;
  return parts_of(element_of(word)) == parts_of(element_of(job));
}

}  // namespace dlflow
