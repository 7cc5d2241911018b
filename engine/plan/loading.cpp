#include "engine/plan/loading.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/model/step_kinds.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTooOld =
    "this system is older than the one that it was built for: build it here, or run the step in an "
    "`image:`";
constexpr std::string_view kAbsent = "load its module in `setup:` of the profile, or install it";

/// A missing library, or one without the needed version.
struct Missing {
  fs::path library;
  std::string version;    ///< "GLIBC_2.34"; empty: the library itself is missing
  std::string needed_by;  ///< "dlflow-train", if known
};

/// The text before the last `end` in `line`, from the last `begin` on; empty without these.
std::string between(std::string_view line, std::string_view begin, std::string_view end) {
  const std::string_view head = line.substr(0, std::min(line.rfind(end), line.size()));
  const size_t at = head.rfind(begin);
  if (head.size() == line.size() || at == head.npos) return "";
  return std::string(head.substr(at + begin.size()));
}

/// Parses a line of glibc's loader about a program that is started or only traced.
std::optional<Missing> missing_in(const std::string& line) {
  const std::string version = between(line, ": version `", "' not found (required by ");
  const std::string library = between(line, ": /", ": version `");
  if (!version.empty() && !library.empty() && line.ends_with(')')) {
    return Missing{"/" + library, version,
                   fs::path(between(line, "(required by ", ")")).filename()};
  }
  constexpr std::string_view kError = ": error while loading shared libraries: ";
  const std::string unopened = between(line, kError, ": cannot open shared object file");
  if (!unopened.empty()) {
    return Missing{unopened, "", fs::path(line.substr(0, line.find(kError))).filename()};
  }
  const std::string absent = between(line, "\t", " => not found");
  const bool is_traced = !absent.empty() && absent.find(' ') == absent.npos;
  return is_traced ? std::optional(Missing{absent, "", ""}) : std::nullopt;
}

/// "GLIBC_2.31": the newest version in the library with the prefix `kind`, such as "GLIBC_".
std::string newest_version(const fs::path& library, const std::string& kind) {
  const std::string content = read_file_if_exists(library).value_or("");
  std::string newest;
  for (size_t at = 0; (at = content.find(kind, at)) != content.npos; at += kind.size()) {
    const size_t end = content.find_first_not_of("0123456789.", at + kind.size());
    const std::string version = content.substr(at, end - at);
    if (::strverscmp(version.c_str(), newest.c_str()) > 0) newest = version;
  }
  return newest == kind ? "" : newest;
}

std::string in_words(const Missing& missing) {
  const std::string name = missing.library.filename();
  if (missing.version.empty()) {
    return name + (missing.needed_by.empty() ? "" : ", which " + missing.needed_by + " needs,") +
           " is not found";
  }
  const std::string kind = missing.version.substr(0, missing.version.find('_') + 1);
  const std::string newest = newest_version(missing.library, kind);
  return missing.needed_by + " needs version " + missing.version + " of " + name +
         (newest.empty() ? "" : ", whose newest is " + newest);
}

/// The loader's list of what it would load; runs nothing of `program`.
std::string trace_of(const fs::path& program, const std::vector<std::string>& environment) {
  Command command{.argv = {program}, .environment = environment};
  command.environment.emplace_back("LD_TRACE_LOADED_OBJECTS=1");
  const OutputOptions options{.collect_errors = true};
  const Output output = run(std::move(command), options);
  return output.text + output.errors;
}

}  // namespace

std::string loading_problem(std::string_view text) {
  std::map<fs::path, Missing> libraries;
  std::string_view advice = kAbsent;
  for (const std::string& line : split(text, '\n')) {
    const auto missing = missing_in(line);
    if (!missing) continue;
    if (!missing->version.empty()) advice = kTooOld;
    Missing& known = libraries.try_emplace(missing->library.filename(), *missing).first->second;
    if (::strverscmp(missing->version.c_str(), known.version.c_str()) > 0) known = *missing;
  }
  if (libraries.empty()) return "";
  std::vector<std::string> words;
  for (const auto& [name, missing] : libraries) words.push_back(in_words(missing));
  return join(words, ", and ") + "; " + std::string(advice);
}

std::string loading_problem_of(const fs::path& program,
                               const std::vector<std::string>& environment) {
  try {
    return loading_problem(trace_of(program, environment));
  } catch (const Error& error) {
    if (error.code() != Errc::NotFound) return "";
    return "this system has no loader for it, like all without glibc; run the step in an `image:`";
  }
}

std::optional<ProgramHere> program_here(const Step& step, const Profile& profile) {
  const StepKind* kind = find_step_kind(step.uses);
  if (kind == nullptr || kind->program.empty() || !step.image.empty()) return std::nullopt;
  const bool sets_up = !profile.setup.empty() || !profile.classes.empty() || !step.tools.empty();
  if (sets_up || step.environment.source().contains("LD_LIBRARY_PATH")) return std::nullopt;
  std::vector<std::string> environment;
  for (const auto& [name, value] : profile.environment) environment.push_back(name + "=" + value);
  for (std::string& variable : current_environment()) environment.push_back(std::move(variable));
  return ProgramHere{this_program().parent_path() / kind->program, std::move(environment)};
}

std::string first_found(std::span<const char* const> libraries, const fs::path& program,
                        const std::vector<std::string>& environment) {
  for (const char* name : libraries) {
    std::vector<std::string> loads_it = environment;
    loads_it.push_back(std::string("LD_PRELOAD=") + name);
    const bool found =
        trace_of(program, loads_it).find(std::string(name) + " => /") != std::string::npos;
    if (found) return name;
  }
  return "";
}

}  // namespace dlflow
