#include "engine/plan/job_name.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace dlflow {
namespace {

/// "width=64,lr=0.1" -> its parts, sorted.
std::vector<std::string> parts_of(std::string_view element) {
  std::vector<std::string> parts = split(element, ',');
  for (std::string& part : parts) part = std::string(trim(part));
  std::ranges::sort(parts);
  return parts;
}

}  // namespace

JobName::JobName(std::string_view step, std::string_view element) {
  text_.reserve(step.size() + element.size() + 2);  // without spare capacity
  text_.append(step).append("[").append(element).append("]");
}

std::string_view JobName::step() const {
  return std::string_view(text_).substr(0, text_.find('['));
}

std::string_view JobName::element() const {
  const size_t bracket = text_.find('[');
  if (bracket == text_.npos) return {};
  return std::string_view(text_).substr(bracket + 1, text_.size() - bracket - 2);
}

bool JobName::is_meant_by(std::string_view word) const {
  if (word == text_ || word == step()) return true;
  if (element().empty() || !word.ends_with(']')) return false;
  const JobName other(word);
  return other.step() == step() && parts_of(other.element()) == parts_of(element());
}

}  // namespace dlflow
