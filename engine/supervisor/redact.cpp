#include "engine/supervisor/redact.h"

#include <algorithm>
#include <utility>

namespace dlflow {

Redactor::Redactor(const Secrets& secrets) {
  for (const auto& [name, value] : secrets) {
    values_.push_back(value);
    begins_[static_cast<unsigned char>(value.front())] = true;
  }
}

/// Whether `text`, with further bytes to come, begins a value.
bool Redactor::is_cut(std::string_view text) const {
  return std::any_of(values_.begin(), values_.end(), [text](const std::string& value) {
    return value.size() > text.size() && value.starts_with(text);
  });
}

/// The length of the longest value at the beginning of `text`; 0 if there is none.
size_t Redactor::longest_at(std::string_view text) const {
  size_t longest = 0;
  for (const std::string& value : values_) {
    if (text.starts_with(value)) longest = std::max(longest, value.size());
  }
  return longest;
}

/// Passes on the part of kept_ that is decided; the rest stays in it.
std::string Redactor::take(End end) {
  const auto begins = [this](char c) { return begins_[static_cast<unsigned char>(c)]; };
  std::string known;
  size_t at = 0;
  while (at < kept_.size()) {
    const auto text = std::string_view(kept_).substr(at);
    if (begins(text.front())) {
      if (end == End::Open && is_cut(text)) break;
      hidden_ = std::max(hidden_, longest_at(text));
    }
    if (hidden_ > 0) {
      if (!std::exchange(hiding_, true)) known += "***";
      --hidden_;
      ++at;
    } else {  // bytes up to the possible start of a value, at once: most of a stream is in none
      const auto next = std::find_if(text.begin() + 1, text.end(), begins);
      known.append(text.begin(), next);
      at += size_t(next - text.begin());
      hiding_ = false;
    }
  }
  kept_.erase(0, at);
  return known;
}

std::string Redactor::next(std::string_view bytes) {
  kept_ += bytes;
  return take(End::Open);
}

std::string Redactor::rest() {
  if (kept_.size() >= kShortestSecret) hidden_ = kept_.size();
  return take(End::Reached);
}

std::string Redactor::text(std::string_view whole) const {
  Redactor fresh;
  fresh.values_ = values_;
  fresh.begins_ = begins_;
  fresh.kept_ = whole;
  return fresh.take(End::Reached);
}

Json Redactor::json(const Json& json) const {
  if (json.is_string()) return text(json.get_ref<const std::string&>());
  Json result = json;
  if (json.is_array()) {
    for (Json& part : result) part = this->json(part);
  } else if (json.is_object()) {
    result = Json::object();
    for (const auto& [key, value] : json.items()) result[text(key)] = this->json(value);
  }
  return result;
}

}  // namespace dlflow
