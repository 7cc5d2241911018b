#include "engine/model/unlisted_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/local_files.h"
#include "engine/model/python_modules.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// Collects the words of a shell script or a list, as far as possible without a shell.
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
    fs::path folder = (base / input).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "lib/", "."
    return is_below(file, folder);
  };
  return std::any_of(step.inputs.begin(), step.inputs.end(), covers) ||
         std::ranges::any_of(step.data, [&](const DataInput& data) { return covers(data.path); });
}

}  // namespace

std::vector<UnlistedFile> unlisted_files(const Step& step, const fs::path& base) {
  std::set<std::string> words;
  collect_words(step.run.source(), words);
  std::vector<UnlistedFile> files;
  for (const std::string& word : words) {
    const fs::path file = (base / word).lexically_normal();
    std::error_code none;
    if (is_of_system(file) || !fs::is_regular_file(file, none)) continue;
    const bool is_own = is_below(file, base.lexically_normal());
    if (!is_own && ::access(file.c_str(), X_OK) == 0) continue;
    if (!is_listed(step, file, base)) files.push_back({word});
    if (!is_own || file.extension() != ".py") continue;
    const fs::path folder = fs::path(word).parent_path();
    for (const PythonModule& module : python_modules(file)) {
      if (is_listed(step, file.parent_path() / module.path, base)) continue;
      files.push_back({(folder / module.path).lexically_normal().string(), module.reader});
    }
  }
  return files;
}

}  // namespace dlflow
