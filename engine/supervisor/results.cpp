#include "engine/supervisor/results.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/not_finite.h"
#include "base/parse_json.h"
#include "base/sha256.h"
#include "base/text.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

Json read_object(const fs::path& file, const char* what) {
  const auto text = read_file_if_exists(file);
  if (!text) return Json::object();
  Json json = parse_json_or_throw(quote_not_finite(*text), file.string(), kForeignJson);
  if (json.is_object()) return json;
  throw Error(Errc::InvalidInput, file.string() + " is not a JSON object, as " + what + " must be");
}

/// Files below `folder` in the order of their relative names.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Place {
  fs::path now;        ///< where it is
  fs::path published;  ///< where it will be
};

/// Where the output `value` lies, if it is a relative path of something that exists.
std::optional<Place> find_output(const JobSpec& spec, const AttemptFiles& files,
                                 const Json& value) {
  if (!value.is_string()) return std::nullopt;
  const fs::path normal = fs::path(value.get<std::string>()).lexically_normal();
  if (normal.empty() || normal.is_absolute() || *normal.begin() == "..") return std::nullopt;
  Place place{files.outputs() / normal, spec.job_directory / "outputs" / normal};
  std::error_code too_long;  // for a name of a file: then it is a text
  if (*normal.begin() == "checkpoints" && !fs::exists(place.now, too_long)) {
    place.now = place.published = spec.job_directory / normal;
  }
  if (!fs::exists(place.now, too_long)) return std::nullopt;
  return place;
}

Json output_entry(const JobSpec& spec, const AttemptFiles& files, const Json& given) {
  const bool detailed = given.is_object() && given.contains("value");
  const Json value = detailed ? given.at("value") : given;
  const auto place = find_output(spec, files, value);
  Json entry = {{"value", place ? Json(place->published.string()) : value}};
  if (detailed && given.contains("sha256")) {
    entry["sha256"] = given.at("sha256");
    if (!entry["sha256"].is_string()) {
      throw Error(Errc::InvalidInput, "outputs.json gives an output a sha256 that is no text");
    }
  } else {
    entry["sha256"] = place ? content_hash(place->now) : sha256_hex(value.dump());
  }
  return entry;
}

bool holds(double value, const Requirement& requirement) {
  const std::string& comparison = requirement.comparison;
  if (comparison == "<") return value < requirement.bound;
  if (comparison == "<=") return value <= requirement.bound;
  if (comparison == "==") return value == requirement.bound;
  if (comparison == ">=") return value >= requirement.bound;
  DLFLOW_CHECK(comparison == ">");
  return value > requirement.bound;
}

std::string print(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

/// JSON writes some characters in other ways, so that it is read first; what is no JSON is text.
std::string redacted(const std::string& text, const Redactor& redactor) {
  const Json json = parse_json(text);
  if (json.is_discarded()) return redactor.text(text);
  const Json clean = redactor.json(json);
  return clean == json ? text : clean.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string redacted_lines(const std::string& text, const Redactor& redactor) {
  std::vector<std::string> lines = split(text, '\n');
  for (std::string& line : lines) line = redacted(line, redactor);
  return join(lines, "\n");
}

void replace_file(const fs::path& file, const Redactor& redactor,
                  std::string (*redact)(const std::string&, const Redactor&)) {
  const auto text = read_file_if_exists(file);
  if (!text) return;
  const std::string clean = redact(*text, redactor);
  if (clean != *text) write_file_atomic(file, clean);
}

/// What a terminal shows of a line: behind the last carriage return, without colours.
std::string plain_text(const std::string& line) {
  const std::string kept(trim(line));
  const size_t begin = kept.rfind('\r') + 1;  // 0 without any
  std::string text;
  for (size_t i = begin; i < kept.size(); ++i) {
    if (kept[i] == '\033' && i + 1 < kept.size() && kept[i + 1] == '[') {
      i = std::min(kept.find_first_of("ABCDEFGHJKSTfhlmnsu", i), kept.size());
    } else if (static_cast<unsigned char>(kept[i]) >= ' ' && kept[i] != 0x7F) {
      text += kept[i];
    }
  }
  return escaped(trim(text));
}

void link_outputs(const JobSpec& spec, const AttemptFiles& files) {
  const fs::path link = spec.job_directory / "outputs";
  const fs::path temporary = spec.job_directory / ("outputs.tmp." + std::to_string(::getpid()));
  const std::string target = files.attempt.filename().string() + "/outputs";
  if (::symlink(target.c_str(), link.c_str()) == 0) return;  // nothing was published before
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0 ||
      ::rename(temporary.c_str(), link.c_str()) != 0) {
    throw_errno("cannot create " + link.string(), errno);
  }
}

}  // namespace

std::string content_hash(const fs::path& path) {
  if (!fs::is_directory(path)) return sha256_file(path);
  Sha256 hash;
  for (const fs::path& file : files_below(path)) {
    hash.update(file.lexically_relative(path).string()).update(std::string_view("\0", 1));
    hash.update(sha256_file(file));
  }
  return hash.hex();
}

void redact_reports(const AttemptFiles& files, const Redactor& redactor) {
  replace_file(files.metrics(), redactor, redacted_lines);
  replace_file(files.summary(), redactor, redacted);
  replace_file(files.outputs_file(), redactor, redacted);
}

Json read_metrics(const AttemptFiles& files) {
  const Json summary = read_object(files.summary(), "$DLFLOW_SUMMARY");
  Json numbers = Json::object();
  for (const auto& [key, value] : summary.items()) {
    if (number_of(value)) numbers[key] = value;
  }
  return numbers;
}

Json collect_outputs(const JobSpec& spec, const AttemptFiles& files) {
  Json outputs = Json::object();
  for (const auto& [name, path] : spec.outputs) {
    if (!fs::exists(files.outputs() / path)) {
      throw Error(Errc::InvalidInput,
                  "output '" + name + "' is missing: $DLFLOW_OUTPUTS/" + path + " was not written");
    }
    outputs[name] = output_entry(spec, files, path);
  }
  const Json reported = read_object(files.outputs_file(), "outputs.json");
  for (const auto& [name, given] : reported.items()) {
    outputs[name] = output_entry(spec, files, given);
  }
  return outputs;
}

void check_requirements(const JobSpec& spec, const Json& metrics) {
  for (const Requirement& requirement : spec.require) {
    const std::string asked = requirement.comparison + " " + print(requirement.bound);
    const auto found = metrics.find(requirement.metric);
    if (found == metrics.end()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : metrics.items()) names.push_back(name);
      throw Error(Errc::InvalidInput, "no metric '" + requirement.metric + "', required " + asked +
                                          "; the step reported " +
                                          (names.empty() ? "none" : join(names, ", ")));
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

void publish(const JobSpec& spec, const AttemptFiles& files) {
  sync_tree(checkpoints_directory(spec));  // where outputs may lie
  const bool any = sync_tree(files.outputs());
  link_outputs(spec, files);
  if (any) sync_directory(spec.job_directory);
}

std::string checkpoint_signature(const JobSpec& spec) {
  const fs::path folder = checkpoints_directory(spec);
  if (!fs::is_directory(folder)) return "";
  const std::vector<fs::path> files = files_below(folder);
  if (files.empty()) return "";
  Sha256 hash;
  for (const fs::path& file : files) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) continue;
    hash.update(file.string() + " " + std::to_string(info.st_size) + " " +
                std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec));
  }
  return hash.hex();
}

std::string telling_line(const fs::path& standard_error, uint64_t from) {
  constexpr std::streamoff kTail = 16384;
  constexpr size_t kLongest = 300;
  std::ifstream stream(standard_error, std::ios::binary | std::ios::ate);
  if (!stream) return "";
  const std::streamoff size = stream.tellg();
  stream.seekg(std::max<std::streamoff>(std::streamoff(from), size - kTail));
  std::string last;
  std::string last_error;
  for (std::string line; std::getline(stream, line);) {
    const std::string text = plain_text(line);
    const bool frame = text.find_first_not_of('-') == std::string::npos;
    if (frame || find_invalid_utf8(text) != std::string::npos) continue;
    last = text;
    if (text.starts_with("error") || text.starts_with("Error")) last_error = text;
  }
  std::string telling = last_error.empty() ? last : last_error;
  if (telling.size() > kLongest) {
    size_t end = kLongest;
    while ((static_cast<unsigned char>(telling[end]) & 0xC0) == 0x80) --end;  // whole characters
    telling = telling.substr(0, end) + "…";
  }
  return telling;
}

}  // namespace dlflow
