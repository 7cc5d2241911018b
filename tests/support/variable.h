#pragma once

#include <stdlib.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace dlflow::test {

/// A variable of this process's environment; the destructor restores its earlier value.
class Variable {
 public:
  /// \param value  if empty, the variable is unset.
  Variable(std::string name, const std::optional<std::string>& value) : name_(std::move(name)) {
    if (const char* before = ::getenv(name_.c_str())) before_ = before;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(before_); }

  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_.c_str(), value->c_str(), 1) : ::unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

/// $PATH with `folder` in front.
inline std::string path_with(const std::filesystem::path& folder) {
  const char* path = ::getenv("PATH");
  return folder.string() + ":" + (path == nullptr ? "" : path);
}

}  // namespace dlflow::test
