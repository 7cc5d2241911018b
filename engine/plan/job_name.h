#pragma once

#include <compare>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace dlflow {

/// The name of a job, unique in its run: that of its step, "train", or with the matrix values of
/// its element, "train[lr=0.1]". Where a text is needed it is one; a text is not a name by itself.
class JobName {
 public:
  JobName() = default;
  JobName(const char* literal) : text_(literal) {}
  explicit JobName(std::string text) : text_(std::move(text)) {}
  explicit JobName(std::string_view text) : text_(text) {}
  /// `element`: "lr=0.1".
  JobName(std::string_view step, std::string_view element);

  const std::string& text() const { return text_; }
  operator const std::string&() const { return text_; }
  operator std::string_view() const { return text_; }
  bool empty() const { return text_.empty(); }

  std::string_view step() const;
  /// Empty without a matrix. It is also the name of the element's folder.
  std::string_view element() const;

  /// Whether people mean this job by `word`: its name, with the axes in any order
  /// ("train[width=64,lr=0.1]" for "train[lr=0.1,width=64]"), or the name of its step.
  bool is_meant_by(std::string_view word) const;

  auto operator<=>(const JobName&) const = default;
  friend std::string operator+(std::string text, const JobName& name) { return text += name.text_; }
  friend std::string operator+(const JobName& name, std::string_view text) {
    return name.text_ + std::string(text);
  }
  friend std::ostream& operator<<(std::ostream& out, const JobName& name) {
    return out << name.text_;
  }
  friend void to_json(Json& json, const JobName& name) { json = name.text_; }
  friend void from_json(const Json& json, JobName& name) { json.get_to(name.text_); }

 private:
  std::string text_;
};

}  // namespace dlflow
