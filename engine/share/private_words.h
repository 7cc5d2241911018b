#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

/// The names of this machine, its user and their folders. A bundle contains none of them, except
/// where the user wrote them into the workflow or its files.
namespace dlflow {

class PrivateWords {
 public:
  /// Of a run: the folders of the run, the workflow, the profile and the user; `nodes` of its jobs,
  /// and others of the same name with another number; this host; the user's name.
  PrivateWords(const Plan& plan, const std::vector<std::string>& nodes);

  /// The first of these words in `text`, or nothing.
  std::optional<std::string> find_in(std::string_view text) const;

  /// The same for a file's content. In files that are not text, words of a few letters occur by
  /// chance and are not looked for.
  std::optional<std::string> find_in_file(const std::filesystem::path& file) const;

 private:
  void add_folder(const std::filesystem::path& folder);
  void add_name(const std::string& name);

  struct Name {
    std::string text;
    bool numbered = false;  ///< any number may follow: of "alpha-n1", "alpha-n" is kept
  };

  std::vector<std::string> folders_;
  std::vector<Name> names_;  ///< of hosts and of the user; whole words
};

}  // namespace dlflow
