#include "engine/supervisor/declared_outputs.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoints = "checkpoints";

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

/// A tree that outputs may be in, and how people call it.
struct SearchedTree {
  fs::path folder;
  const char* name;
};

/// What has this path in `folder`, or matches it: relative names, sorted.
std::vector<std::string> find_matches(const fs::path& folder, const std::string& path) {
  std::error_code none;
  const std::string normal = fs::path(path).lexically_normal().string();
  if (fs::exists(folder / normal, none)) return {normal};
  std::vector<std::string> found;
  if (!is_pattern(path)) return found;
  for (auto at = fs::recursive_directory_iterator(folder, none);
       at != fs::recursive_directory_iterator(); at.increment(none)) {
    std::string name = at->path().lexically_relative(folder).string();
    const bool fits = ::fnmatch(normal.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
    if (fits) found.push_back(std::move(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Of links, only what they are in counts: inputs are links.
bool is_symbolic(const fs::path& path) {
  std::error_code none;
  return fs::is_symlink(path, none);
}

std::string one_of(const std::string& name, const std::string& path,
                   const std::vector<std::string>& found) {
  if (found.size() == 1) return found.front();
  constexpr size_t kShown = 3;
  const std::vector<std::string> some(found.begin(),
                                      found.begin() + ptrdiff_t(std::min(kShown, found.size())));
  throw Error(Errc::InvalidInput, "output '" + name + "' is to be one file or folder, and " + path +
                                      " matches " + std::to_string(found.size()) + ": " +
                                      join(some, ", ") + (found.size() > kShown ? ", …" : "") +
                                      "; name one of them, or the folder that they are in");
}

/// Files of that name elsewhere, for the message: "$DLFLOW_OUTPUTS/run1/model.pt".
std::string found_instead(const std::vector<SearchedTree>& trees, const std::string& path) {
  constexpr int kMostEntries = 100'000;
  const std::string wanted = fs::path(path).lexically_normal().filename().string();
  int looked_at = 0;
  for (const SearchedTree& tree : trees) {
    std::error_code none;
    for (auto at = fs::recursive_directory_iterator(tree.folder, none);
         at != fs::recursive_directory_iterator() && ++looked_at < kMostEntries;
         at.increment(none)) {
      if (::fnmatch(wanted.c_str(), at->path().filename().c_str(), FNM_PERIOD) != 0) continue;
      if (is_symbolic(at->path())) continue;
      return std::string(tree.name) + "/" + at->path().lexically_relative(tree.folder).string();
    }
  }
  return "";
}

class Settler {
 public:
  Settler(const JobSpec& spec, const AttemptFiles& files)
      : outputs_(files.outputs()), work_(files.work()), job_(spec.job_directory) {}

  std::string settle(const std::string& name, const std::string& path) const {
    if (auto found = find_matches(outputs_, path); !found.empty()) return one_of(name, path, found);
    const fs::path normal = fs::path(path).lexically_normal();
    if (*normal.begin() == kCheckpoints) {
      if (auto found = matches_below_checkpoints(normal); !found.empty()) {
        return one_of(name, path, found);
      }
    }
    auto found = find_matches(work_, path);
    std::erase_if(found, [this](const std::string& match) { return is_symbolic(work_ / match); });
    if (found.empty()) throw_missing(name, path);
    const std::string one = one_of(name, path, found);
    move_to_outputs(name, one);
    return one;
  }

 private:
  std::vector<std::string> matches_below_checkpoints(const fs::path& path) const {
    const fs::path inner = path.lexically_relative(kCheckpoints);
    std::vector<std::string> found = find_matches(job_ / kCheckpoints, inner.string());
    for (std::string& match : found) match = (fs::path(kCheckpoints) / match).lexically_normal();
    return found;
  }

  void move_to_outputs(const std::string& name, const std::string& path) const {
    make_directories((outputs_ / path).parent_path());
    std::error_code problem;
    fs::rename(work_ / path, outputs_ / path, problem);
    if (!problem) return;
    throw Error(Errc::InvalidInput, "output '" + name + "': cannot move " +
                                        (work_ / path).string() +
                                        " to $DLFLOW_OUTPUTS: " + problem.message());
  }

  [[noreturn]] void throw_missing(const std::string& name, const std::string& path) const {
    const std::string instead = found_instead({{outputs_, "$DLFLOW_OUTPUTS"},
                                               {work_, "the working directory"},
                                               {job_ / kCheckpoints, "$DLFLOW_CHECKPOINTS"}},
                                              path);
    throw Error(Errc::InvalidInput,
                "output '" + name + "' is missing: " + path +
                    " was written neither below $DLFLOW_OUTPUTS nor in the working directory" +
                    (instead.empty() ? "" : "; there is " + instead));
  }

  fs::path outputs_;
  fs::path work_;
  fs::path job_;
};

}  // namespace

std::map<std::string, std::string> settle_outputs(const JobSpec& spec, const AttemptFiles& files) {
  const Settler settler(spec, files);
  std::map<std::string, std::string> settled;
  for (const auto& [name, path] : spec.outputs) settled[name] = settler.settle(name, path);
  return settled;
}

}  // namespace dlflow
