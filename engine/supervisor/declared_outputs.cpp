#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/text.h"
#include "engine/supervisor/results.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCheckpoints = "checkpoints";

bool is_pattern(const std::string& path) { return path.find_first_of("*?[") != path.npos; }

/// A tree that outputs may be in, and the beginning of their paths in `outputs:`.
struct SearchedTree {
  fs::path folder;
  const char* prefix;
};

/// Whether something other than the program made the file: it is a link, or an input.
using IsGiven = std::function<bool(const std::filesystem::path&)>;

/// The normal form of a declared path: "plots/./loss/" is plots/loss.
std::string normal_path(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return normal.has_filename() ? normal.string() : normal.parent_path().string();
}

/// The paths in `folder` that match this one: relative names, sorted.
std::vector<std::string> find_matches(const fs::path& folder, const std::string& normal) {
  std::error_code none;
  if (fs::exists(folder / normal, none)) return {normal};
  std::vector<std::string> found;
  if (!is_pattern(normal)) return found;
  for (auto at = fs::recursive_directory_iterator(folder, none);
       at != fs::recursive_directory_iterator(); at.increment(none)) {
    std::string name = at->path().lexically_relative(folder).string();
    const bool fits = ::fnmatch(normal.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
    if (fits) found.push_back(std::move(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_symbolic(const fs::path& path) {
  std::error_code none;
  return fs::is_symlink(path, none);
}

/// The first link on the way from `folder` to `path` below it, or `path` itself if it is a link.
std::optional<fs::path> first_link(const fs::path& folder, const fs::path& path) {
  fs::path place = folder;
  for (const fs::path& part : path) {
    place /= part;
    if (is_symbolic(place)) return place;
  }
  return std::nullopt;
}

std::string one_of(const std::string& name, const std::string& path,
                   const std::vector<std::string>& found) {
  if (found.size() == 1) return found.front();
  constexpr size_t kShown = 3;
  const std::vector<std::string> some(found.begin(),
                                      found.begin() + ptrdiff_t(std::min(kShown, found.size())));
  throw Error(Errc::InvalidInput, "output '" + name + "' must be one file or folder, but " + path +
                                      " matches " + std::to_string(found.size()) + ": " +
                                      join(some, ", ") + (found.size() > kShown ? ", …" : "") +
                                      "; name one of them, or the folder that they are in");
}

/// The file or folder of that name elsewhere; or else the first files that the program left, for
/// the message: "last.pt, log.txt and 3 more".
std::string left_instead(const std::vector<SearchedTree>& trees, const fs::path& path,
                         const IsGiven& is_given) {
  constexpr size_t kNamed = 3;
  constexpr int kMostEntries = 100'000;
  const std::string wanted = path.lexically_normal().filename().string();
  std::vector<std::string> left;
  int looked_at = 0;
  for (const SearchedTree& tree : trees) {
    std::error_code none;
    for (auto at = fs::recursive_directory_iterator(tree.folder, none);
         at != fs::recursive_directory_iterator() && ++looked_at < kMostEntries;
         at.increment(none)) {
      if (is_given(at->path())) continue;
      const std::string name =
          tree.prefix + escaped(at->path().lexically_relative(tree.folder).string());
      const std::string last = at->path().filename();
      if (::fnmatch(wanted.c_str(), last.c_str(), FNM_PERIOD) == 0) return name;
      if (*tree.prefix == '\0' && at->is_regular_file(none)) left.push_back(name);
    }
  }
  if (left.empty()) return "";
  std::sort(left.begin(), left.end());
  const size_t more = left.size() - std::min(left.size(), kNamed);
  left.resize(left.size() - more);
  return join(left, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

/// The place of an output.
struct FoundOutput {
  enum class Where {
    Published,  ///< below $DLFLOW_OUTPUTS or $DLFLOW_CHECKPOINTS, where it stays
    Work,       ///< in the working directory
    Saved,      ///< in the folder that `checkpoint: {newer: …}` names
  };
  std::string path;  ///< relative to the folder it is in, and in $DLFLOW_OUTPUTS
  Where where = Where::Published;
};

class Settler {
 public:
  Settler(const JobSpec& spec, const AttemptFiles& files)
      : spec_(spec),
        outputs_(files.outputs()),
        work_(files.work()),
        checkpoints_(checkpoints_directory(spec)),
        saved_(spec.checkpoint ? folder_of_pattern(spec.checkpoint->newer) : "") {
    std::error_code none;
    const bool is_linked =
        !saved_.empty() && fs::read_symlink(work_ / saved_, none) == checkpoints_ / saved_;
    if (!is_linked) saved_.clear();
  }

  /// Finds outputs; moves and copies nothing.
  FoundOutput find(const std::string& name, const std::string& declared) const {
    const std::string path = normal_path(declared);
    if (auto found = find_matches(outputs_, path); !found.empty()) {
      return {one_of(name, declared, found)};
    }
    if (*fs::path(path).begin() == kCheckpoints) {
      if (auto found = matches_below_checkpoints(path); !found.empty()) {
        return {one_of(name, declared, found)};
      }
    }
    FoundOutput found = find_in_work(name, declared, path);
    if (const auto link = first_link(outputs_, fs::path(found.path).parent_path())) {
      throw Error(Errc::InvalidInput, "output '" + name + "': cannot bring " + found.path +
                                          " to $DLFLOW_OUTPUTS: " + said(*link, outputs_));
    }
    return found;
  }

  /// Moves the outputs to $DLFLOW_OUTPUTS: folders before the outputs inside them, which move
  /// along.
  void bring(const std::map<std::string, FoundOutput>& found) const {
    std::vector<std::pair<std::string, FoundOutput>> order;
    for (const auto& [name, one] : found) {
      if (one.where != FoundOutput::Where::Published) order.emplace_back(name, one);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return a.second.path.size() < b.second.path.size();
    });
    std::vector<FoundOutput> brought;
    for (const auto& [name, one] : order) {
      const bool came_along =
          std::any_of(brought.begin(), brought.end(), [&found = one](const FoundOutput& other) {
            return other.where == found.where && is_below(found.path, other.path);
          });
      if (came_along) continue;
      bring(name, one);
      brought.push_back(one);
    }
  }

 private:
  std::vector<std::string> matches_below_checkpoints(const fs::path& path) const {
    const fs::path inner = path.lexically_relative(kCheckpoints);
    std::vector<std::string> found = find_matches(checkpoints_, inner.string());
    for (std::string& match : found) match = (fs::path(kCheckpoints) / match).lexically_normal();
    return found;
  }

  /// Files behind a link are not taken: they belong to others, as inputs do. From the folder of
  /// checkpoints, to which dlflow's own link leads, outputs are copied.
  FoundOutput find_in_work(const std::string& name, const std::string& declared,
                           const std::string& path) const {
    std::optional<fs::path> link;
    auto found = without_links(work_, find_matches(work_, path), link);
    const bool is_input =
        std::erase_if(found, [&](const std::string& one) { return is_given(work_ / one); }) > 0;
    if (!found.empty()) return {one_of(name, declared, found), FoundOutput::Where::Work};
    if (is_input) {
      throw Error(Errc::InvalidInput, "output '" + name + "' is missing: " + path +
                                          " is an input, and the program did not change it");
    }
    if (!link) link = first_link(work_, path);
    if (!saved_.empty()) {
      if (link == work_ / saved_) link.reset();
      found = without_links(checkpoints_, saved_matches(path), link);
      if (!found.empty()) return {one_of(name, declared, found), FoundOutput::Where::Saved};
    }
    throw_missing(name, declared, link);
  }

  std::vector<std::string> saved_matches(const std::string& path) const {
    std::vector<std::string> found = find_matches(checkpoints_, path);
    std::erase_if(found, [&](const std::string& match) { return !is_below(match, saved_); });
    return found;
  }

  /// \param[out] link  a link on the way to an output that was left out, if there was one
  static std::vector<std::string> without_links(const fs::path& folder,
                                                std::vector<std::string> found,
                                                std::optional<fs::path>& link) {
    std::erase_if(found, [&](const std::string& match) {
      const auto in_the_way = first_link(folder, match);
      if (in_the_way) link = in_the_way;
      return in_the_way.has_value();
    });
    return found;
  }

  /// "shared is a link to /data/shared"
  static std::string said(const fs::path& link, const fs::path& folder) {
    std::error_code none;
    return link.lexically_relative(folder).string() + " is a link to " +
           fs::read_symlink(link, none).string();
  }

  void bring(const std::string& name, const FoundOutput& found) const {
    const fs::path to = outputs_ / found.path;
    const bool stays = found.where == FoundOutput::Where::Saved;
    const fs::path from = (stays ? checkpoints_ : work_) / found.path;
    make_directories(to.parent_path());
    std::error_code problem;
    if (stays) {
      fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, problem);
    } else {
      fs::rename(from, to, problem);
    }
    if (!problem) return;
    throw Error(Errc::InvalidInput, "output '" + name + "': cannot " + (stays ? "copy " : "move ") +
                                        from.string() +
                                        " to $DLFLOW_OUTPUTS: " + problem.message());
  }

  [[noreturn]] void throw_missing(const std::string& name, const std::string& path,
                                  const std::optional<fs::path>& link) const {
    const std::string missing =
        "output '" + name + "' is missing: " + path +
        " was written neither below $DLFLOW_OUTPUTS nor in the working directory";
    if (link) {
      const bool in_work = is_below(*link, work_);
      throw Error(Errc::InvalidInput,
                  missing + ": " + said(*link, in_work ? work_ : checkpoints_) +
                      ", but outputs are not taken through links; copy it to $DLFLOW_OUTPUTS");
    }
    const IsGiven given = [this](const fs::path& one) { return is_given(one); };
    const std::string left =
        left_instead({{outputs_, ""}, {work_, ""}, {checkpoints_, "checkpoints/"}}, path, given);
    throw Error(Errc::InvalidInput,
                missing + (left.empty() ? ""
                                        : "; it wrote " + left + ": write `outputs: {" + name +
                                              ": " + left.substr(0, left.find(", ")) + "}`"));
  }

  bool is_given(const fs::path& place) const {
    return is_symbolic(place) || is_untouched_input(spec_, work_, place);
  }

  const JobSpec& spec_;
  fs::path outputs_;
  fs::path work_;
  fs::path checkpoints_;
  std::string saved_;  ///< the name of the link to a folder of checkpoints; empty: there is none
};

}  // namespace

std::map<std::string, std::string> settle_outputs(const JobSpec& spec, const AttemptFiles& files) {
  const Settler settler(spec, files);
  std::map<std::string, FoundOutput> found;
  for (const auto& [name, path] : spec.outputs) found[name] = settler.find(name, path);
  settler.bring(found);
  std::map<std::string, std::string> settled;
  for (const auto& [name, one] : found) settled[name] = one.path;
  return settled;
}

}  // namespace dlflow
