#include "engine/model/unlisted_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/local_files.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The words of a shell script, or of a list, as far as they can be told without a shell.
void collect_words(const Json& command, std::set<std::string>& words) {
  if (command.is_structured()) {
    for (const Json& word : command) collect_words(word, words);
  }
  if (!command.is_string()) return;
  constexpr std::string_view kBetween = " \t\n;&|()<>\"'`=";
  const auto& text = command.get_ref<const std::string&>();
  for (size_t at = text.find_first_not_of(kBetween); at != std::string::npos;) {
    const size_t end = text.find_first_of(kBetween, at);
    words.insert(text.substr(at, end - at));
    at = text.find_first_not_of(kBetween, end);
  }
}

bool is_of_system(const fs::path& path) {
  constexpr std::array<std::string_view, 9> kFolders = {"bin", "dev",  "etc",  "lib", "lib64",
                                                        "opt", "proc", "sbin", "usr"};
  if (!path.is_absolute() || path == path.root_path()) return false;
  return std::ranges::find(kFolders, (++path.begin())->string()) != kFolders.end();
}

bool is_listed(const Step& step, const fs::path& file, const fs::path& base) {
  const auto covers = [&](const fs::path& input) {
    return is_below(file, (base / input).lexically_normal());
  };
  return std::any_of(step.inputs.begin(), step.inputs.end(), covers) ||
         std::any_of(step.data.begin(), step.data.end(),
                     [&](const DataInput& data) { return covers(data.path); });
}

}  // namespace

std::vector<std::string> unlisted_files(const Step& step, const fs::path& base) {
  std::set<std::string> words;
  collect_words(step.run.source(), words);
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const fs::path file = (base / word).lexically_normal();
    std::error_code none;
    if (is_of_system(file) || !fs::is_regular_file(file, none)) continue;
    if (!is_listed(step, file, base)) files.push_back(word);
  }
  return files;
}

}  // namespace dlflow
