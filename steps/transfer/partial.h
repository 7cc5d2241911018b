#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// A resumable download: the content so far, and the version that it is a part of.
namespace dlflow::steps {

class Partial {
 public:
  /// Opens the part that an earlier download left at `content`, with its version in `content`.json.
  /// Without a version, discards it unless a declared hash (`hash_is_known`) reveals a wrong join.
  Partial(std::filesystem::path content, bool hash_is_known);

  uint64_t bytes() const;
  const std::string& version() const { return version_; }

  /// Sets the version that the content is, or will be, a part of.
  void belongs_to(const std::string& version);

  /// Must be called before each try: discards a part that may by now be of other content.
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
