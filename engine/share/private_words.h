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
  /// For a run: its folder and those of the workflow, the profile and the user; `nodes` of its
  /// jobs, and nodes with the same name and another number; this host; the user's name.
  PrivateWords(const Plan& plan, const std::vector<std::string>& nodes);

  /// The first of these words in `text`, or nothing.
  std::optional<std::string> find_in(std::string_view text) const;

  /// The same for a file's content. Ignores short words if the file is not text, where they occur
  /// by chance.
  std::optional<std::string> find_in_file(const std::filesystem::path& file) const;

 private:
  void add_folder(const std::filesystem::path& folder);
  void add_name(const std::string& name);

  struct Name {
    std::string text;
    bool numbered = false;  ///< followed by any number: "alpha-n" is stored for "alpha-n1"
  };

  std::vector<std::string> folders_;
  std::vector<Name> names_;  ///< hosts and the user; whole words only
};

}  // namespace dlflow
