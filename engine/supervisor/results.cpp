#include "engine/supervisor/results.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/local_files.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/plan/data_identity.h"
#include "engine/plan/extension.h"
#include "engine/supervisor/content_hash.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSummaryExample = R"({"accuracy": 0.9})";

/// The beginning of a text, as a message shows it.
std::string beginning_of(const std::string& text) {
  constexpr size_t kShown = 40;
  const std::string line = escaped(text.substr(0, text.find('\n')));
  return line.size() <= kShown ? line : line.substr(0, line.find(' ', kShown)) + " …";
}

/// \param what     the program's name for the file.
/// \param example  of valid content.
Json read_object(const fs::path& file, const std::string& what, const std::string& example) {
  const auto text = read_file_if_exists(file);
  if (!text) return Json::object();
  const std::string readable = quote_not_finite(*text);
  Json json = parse_json(readable, kForeignJson);
  if (json.is_object()) return json;
  // Text that looks like an object is too large, too deep, or wrong at a place that the message
  // names.
  if (trim(readable).starts_with('{')) parse_json_or_throw(readable, what, kForeignJson);
  throw Error(Errc::InvalidInput, what + " is not a JSON object: it begins '" +
                                      beginning_of(*text) + "'; write one like " + example);
}

/// The paths of an output.
struct OutputPaths {
  fs::path now;        ///< where it is
  fs::path published;  ///< where it will be
};

/// The paths of the output `value`, if it is a path in $DLFLOW_OUTPUTS of something that exists.
std::optional<OutputPaths> find_output(const JobSpec& spec, const AttemptFiles& files,
                                       const Json& value) {
  if (!value.is_string()) return std::nullopt;
  fs::path normal = fs::path(value.get<std::string>()).lexically_normal();
  if (is_below(normal, files.outputs())) normal = normal.lexically_relative(files.outputs());
  if (normal.empty() || normal.is_absolute() || *normal.begin() == "..") return std::nullopt;
  OutputPaths paths{files.outputs() / normal, spec.job_directory / "outputs" / normal};
  std::error_code too_long;  // too long for the name of a file: then it is text
  if (*normal.begin() == "checkpoints" && !fs::exists(paths.now, too_long)) {
    paths.now = paths.published = spec.job_directory / normal;
  }
  if (!fs::exists(paths.now, too_long)) return std::nullopt;
  if (!paths.now.has_filename()) paths.now = paths.now.parent_path();  // "checkpoints/"
  return paths;
}

/// The place of an entry of a publication before it is published.
fs::path place_of(const JobSpec& spec, const AttemptFiles& files, const std::string& name) {
  const bool is_output = name == "outputs" || name.starts_with("outputs/");
  return (is_output ? files.own() : spec.job_directory) / name;
}

/// Checks the outputs of a pass and hashes them, each file once.
class Collector {
 public:
  Collector(const JobSpec& spec, const AttemptFiles& files) : spec_(spec), files_(files) {
    add_tree(files.outputs(), "outputs");
  }

  void add(const std::string& name, const Json& given) {
    const bool detailed = given.is_object() && given.contains("value");
    const Json value = detailed ? given.at("value") : given;
    const auto paths = find_output(spec_, files_, value);
    if (paths) {
      if (!entries_.contains(paths->now)) {
        add_tree(paths->now, paths->now.lexically_relative(spec_.job_directory));
      }
    }
    const std::string outside = paths ? "" : look_outside(value);
    Json entry = {{"value", paths ? Json(paths->published.string()) : value}};
    if (detailed && given.contains("sha256") && !given.at("sha256").is_string()) {
      throw Error(Errc::InvalidInput, "outputs.json gives an output a sha256 that is not a string");
    }
    // A command may name wrong files, and files elsewhere may belong to anybody.
    const bool is_told =
        detailed && given.contains("sha256") && outside.empty() && !(paths && spec_.uses.empty());
    if (is_told) {
      entry["sha256"] = given.at("sha256");
    } else {
      entry["sha256"] = paths ? hash(paths->now) : sha256_hex(value.dump() + outside);
    }
    if (paths && !fs::is_directory(paths->now) && is_executable(paths->now)) {
      entry["executable"] = true;
    }
    if (detailed && given.contains("from")) entry["from"] = given.at("from");
    outputs_.values[name] = std::move(entry);
  }

  /// An output whose value is its future path.
  void add_placed(const fs::path& published) {
    const fs::path inner = published.lexically_relative(spec_.job_directory);
    if (inner.empty() || *inner.begin() == "..") return;
    const fs::path now = place_of(spec_, files_, inner);
    if (!entries_.contains(now)) add_tree(now, inner);
    hash(now);
  }

  Outputs take() {
    for (auto& [place, entry] : entries_) outputs_.publication.entries.push_back(entry);
    return std::move(outputs_);
  }

 private:
  void add_tree(const fs::path& place, const std::string& tree) {
    outputs_.publication.trees.push_back(tree);
    places_.push_back(place);
    for (PublishedEntry& entry : list_published(place, tree)) {
      fs::path path = place.string() + entry.name.substr(tree.size());
      if (entry.kind == PublishedEntry::Kind::Link) {
        if (fs::path(tree).is_relative()) check_link(path);
        add_target(path);
      }
      entries_.emplace(std::move(path), std::move(entry));
    }
  }

  /// The state of the files outside of the job that a value names and that children may read;
  /// another state means another value. Empty if it names none.
  std::string look_outside(const Json& value) {
    std::string states;
    for (const std::string& place : places_in(value)) {
      const std::string state = settled_identity(place);
      outputs_.publication.outside.emplace(place, state);
      states += state;
    }
    return states;
  }

  /// The target of a link out of the outputs is a part of them, and must not change either.
  void add_target(const fs::path& link) {
    const fs::path target = fs::canonical(link);
    const bool is_known = std::ranges::any_of(
        places_, [&](const fs::path& place) { return is_below(target, fs::canonical(place)); });
    if (!is_known) add_tree(target, target);
  }

  /// Of a link's targets, only files of the run and outputs of parents are sure to stay unchanged.
  void check_link(const fs::path& link) const {
    const fs::path target = target_of(link);
    const std::string what = "the output " + link.string() + " is a link to " + target.string();
    std::error_code none;
    if (!fs::exists(link, none)) throw Error(Errc::InvalidInput, what + ", which is not there");
    const auto holds = [&](const fs::path& folder) {
      return is_below(target, folder) || is_below(target, fs::weakly_canonical(folder));
    };
    const bool is_kept =
        holds(spec_.run_directory) ||
        std::any_of(spec_.parents.begin(), spec_.parents.end(),
                    [&](const ParentRef& parent) { return holds(parent.directory); });
    if (!is_kept) {
      throw Error(Errc::InvalidInput,
                  what + ", outside of the run, where it may change; copy it instead");
    }
  }

  bool is_file(std::map<fs::path, PublishedEntry>::const_iterator entry) const {
    return entry != entries_.end() && entry->second.kind == PublishedEntry::Kind::File;
  }

  std::string hash(const fs::path& path) {
    return content_hash(path, [this](const fs::path& file) {
      auto entry = entries_.find(file);
      if (!is_file(entry)) entry = entries_.find(fs::canonical(file));  // behind a link
      if (!is_file(entry)) return sha256_file(file);
      if (entry->second.sha256.empty()) entry->second.sha256 = sha256_file(file);
      return entry->second.sha256;
    });
  }

  const JobSpec& spec_;
  const AttemptFiles& files_;
  Outputs outputs_;
  std::map<fs::path, PublishedEntry> entries_;  // by their present place
  std::vector<fs::path> places_;                // of the trees
};

bool holds(double value, const Requirement& requirement) {
  const std::string& comparison = requirement.comparison;
  if (comparison == "<") return value < requirement.bound;
  if (comparison == "<=") return value <= requirement.bound;
  if (comparison == "==") return value == requirement.bound;
  if (comparison == ">=") return value >= requirement.bound;
  DLFLOW_CHECK(comparison == ">");
  return value > requirement.bound;
}

/// "the string \"0.9\"", "a list"
std::string kind_of(const Json& value) {
  constexpr size_t kLongest = 40;
  if (value.is_string()) {
    const std::string text = escaped(value.get<std::string>());
    return "the string '" + (text.size() > kLongest ? text.substr(0, kLongest) + "…" : text) + "'";
  }
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return value.dump();
}

/// The number for which a string was written by mistake; else an example.
double number_in(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(number) ? number : 0.9;
}

std::string print(double value) { return print_number("%.6g", value); }

/// Protects published files against writes by mistake. One with another name, too, is left as it
/// is: others may use it, and a change is detected all the same.
void seal(const fs::path& file, PublishedEntry& entry) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) throw_errno("cannot look at " + file.string(), errno);
  constexpr mode_t kWrite = S_IWUSR | S_IWGRP | S_IWOTH;
  if (info.st_nlink == 1 && (info.st_mode & kWrite) != 0) {
    if (::chmod(file.c_str(), info.st_mode & 07777 & ~kWrite) != 0) return;  // another user's
    entry.identity.ctime_ns = identity_of(file).ctime_ns;
  }
}

/// Requires that the output holds values for an axis.
void check_list(const JobSpec& spec, const AttemptFiles& files, const std::string& name,
                const Json& outputs) {
  const std::string what = "output '" + name + "'";
  const Json& value = outputs.at(name).at("value");
  if (!value.is_string()) {
    values_of_list(value, what);
    return;
  }
  const fs::path published = value.get<std::string>();
  const fs::path inner = published.lexically_relative(spec.job_directory);
  const bool is_here = !inner.empty() && *inner.begin() != "..";
  values_in_text(read_list(is_here ? place_of(spec, files, inner) : published, what), what);
}

/// \param need  why it has to be there: "required > 0.8"
[[noreturn]] void refuse_missing(const std::string& metric, const std::string& need,
                                 const Json& metrics, const AttemptFiles& files) {
  const Json written = read_object(files.summary(), "$DLFLOW_SUMMARY", kSummaryExample);
  if (const auto other = written.find(metric); other != written.end()) {
    throw Error(
        Errc::InvalidInput,
        "metric '" + metric + "' is not a number but " + kind_of(*other) + ", " + need +
            "; write a number into $DLFLOW_SUMMARY: " + Json{{metric, number_in(*other)}}.dump());
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics.items()) names.push_back(name);
  throw Error(Errc::InvalidInput,
              "no metric '" + metric + "', " + need + "; the step reported " +
                  (names.empty() ? "none" : join(names, ", ")) + did_you_mean(metric, names) +
                  "; write it into the file $DLFLOW_SUMMARY: " + Json{{metric, 0.9}}.dump());
}

}  // namespace

void name_elements(Json& outputs, const std::vector<ParentResult>& parents) {
  for (Json& output : outputs) {
    const auto from = output.find("from");
    if (from == output.end()) continue;
    for (const ParentResult& parent : parents) {
      const bool is_of = std::any_of(parent.outputs.begin(), parent.outputs.end(),
                                     [&](const Json& left) { return left.at("value") == *from; });
      if (!is_of) continue;
      output["matrix"] = known_axes(parent);
      break;
    }
    output.erase("from");
  }
}

Json read_metrics(const AttemptFiles& files, std::string* warning) {
  const Json summary = read_object(files.summary(), "$DLFLOW_SUMMARY", kSummaryExample);
  Json numbers = Json::object();
  for (const auto& [key, value] : summary.items()) {
    if (number_of(value)) {
      numbers[key] = value;
    } else if (warning != nullptr && warning->empty()) {
      *warning = "warning: $DLFLOW_SUMMARY: '" + key + "' is " + kind_of(value) +
                 "; metrics are numbers, so it is left out";
    }
  }
  return numbers;
}

std::string warning_of_curves(const AttemptFiles& files) {
  std::error_code none;
  if (!fs::is_regular_file(files.metrics(), none)) return "";  // a pipe would not end
  constexpr size_t kLongest = 1 << 16;
  std::string line(kLongest, '\0');
  if (!std::ifstream(files.metrics()).getline(line.data(), kLongest)) return "";  // longer
  line.resize(line.find('\0'));
  if (trim(line).empty() || parse_json(quote_not_finite(line), kForeignJson).is_object()) return "";
  return "warning: $DLFLOW_METRICS: line 1 is not a JSON object, so it is left out: '" +
         beginning_of(line) + R"('; write lines like {"epoch": 1, "loss": 0.4})";
}

Outputs collect_outputs(const JobSpec& spec, const AttemptFiles& files) {
  const std::map<std::string, std::string> declared = settle_outputs(spec, files);
  Collector collector(spec, files);
  for (const auto& [name, path] : declared) collector.add(name, path);
  const Json reported =
      read_object(files.outputs_file(), "$DLFLOW_OUTPUTS/outputs.json", R"({"model": "model.pt"})");
  for (const auto& [name, given] : reported.items()) collector.add(name, given);
  Outputs outputs = collector.take();
  for (const std::string& name : spec.lists) check_list(spec, files, name, outputs.values);
  return outputs;
}

Publication publication_of(const JobSpec& spec, const AttemptFiles& files, const Json& values) {
  Collector collector(spec, files);
  for (const auto& [name, output] : values.items()) {
    const Json& value = output.at("value");
    if (value.is_string()) collector.add_placed(value.get<std::string>());
  }
  return collector.take().publication;
}

bool has_needed_metrics(const JobSpec& spec, const Json& metrics) {
  return std::ranges::all_of(spec.needed_metrics,
                             [&](const auto& needed) { return metrics.contains(needed.first); });
}

void check_needed_metrics(const JobSpec& spec, const Json& metrics, const AttemptFiles& files) {
  for (const auto& [metric, reader] : spec.needed_metrics) {
    if (!metrics.contains(metric)) {
      refuse_missing(metric, "which step '" + reader + "' reads", metrics, files);
    }
  }
}

void check_requirements(const JobSpec& spec, const Json& metrics, const AttemptFiles& files) {
  for (const Requirement& requirement : spec.require) {
    const std::string asked = requirement.comparison + " " + print(requirement.bound);
    const auto found = metrics.find(requirement.metric);
    if (found == metrics.end()) {
      refuse_missing(requirement.metric, "required " + asked, metrics, files);
    }
    const double value = number_of(*found).value_or(NAN);
    if (std::isnan(value)) {
      throw Error(Errc::InvalidInput,
                  requirement.metric + " is NaN, which is not a number; required " + asked);
    }
    if (!holds(value, requirement)) {
      throw Error(Errc::InvalidInput,
                  requirement.metric + " is " + print(value) + ", required " + asked);
    }
  }
}

void publish(const JobSpec& spec, const AttemptFiles& files, Publication publication) {
  for (PublishedEntry& entry : publication.entries) {
    const bool is_own = fs::path(entry.name).is_relative();
    if (is_own && entry.kind == PublishedEntry::Kind::File) {
      seal(place_of(spec, files, entry.name), entry);
    }
  }
  const bool nothing = is_empty(publication);
  if (!nothing) write_publication(files.own(), publication);
  sync_tree(checkpoints_directory(spec));  // where outputs may lie
  const bool any = !nothing && sync_tree(files.outputs());
  link_outputs(spec.job_directory, files.outputs());
  if (any) sync_directory(spec.job_directory);
}

}  // namespace dlflow
