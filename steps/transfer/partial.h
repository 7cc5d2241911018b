#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// A download that may be continued: the content so far, and the version of what it is a part of.
namespace dlflow::steps {

class Partial {
 public:
  /// What an earlier download left at `content`; its version is in `content`.json. Without a
  /// version it is dropped, unless a declared hash (`hash_is_known`) would show a wrong join.
  Partial(std::filesystem::path content, bool hash_is_known);

  uint64_t bytes() const;
  const std::string& version() const { return version_; }

  /// The content is, or will be, a part of what has this version.
  void belongs_to(const std::string& version);

  /// Before each try: what may be a part of other content by now is dropped, as at first.
  void drop_unknown();

  void discard();
  void forget_version();

 private:
  std::filesystem::path content_;
  std::filesystem::path note_;
  bool hash_is_known_;
  std::string version_;
};

}  // namespace dlflow::steps
