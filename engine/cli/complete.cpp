#include "engine/cli/complete.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/help.h"
#include "engine/model/parse.h"
#include "engine/model/profile.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

using Candidates = std::vector<Candidate>;

/// A parsed command line, with its incomplete last word.
struct TypedLine {
  const CLI::App* command = nullptr;
  std::vector<std::string> arguments = {};  ///< words that are not options
  const CLI::Option* asks = nullptr;        ///< the option whose value the last word is
  std::string typed = {};                   ///< the part of the last word to complete
  std::string before = {};                  ///< the part before it: "--profile=" of "--profile=al"
};

TypedLine read_line(const CLI::App& app, std::span<const std::string> words) {
  TypedLine line{.command = &app};
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (line.asks != nullptr) {
      if (value_word(*line.asks) == "RUN") line.arguments.push_back(word);
      line.asks = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = find_option(*line.command, word);
      if (option != nullptr && !value_word(*option).empty()) line.asks = option;
    } else if (const CLI::App* verb = find_verb(*line.command, word);
               verb != nullptr && line.arguments.empty()) {
      line.command = verb;
    } else {
      line.arguments.push_back(word);
    }
  }
  if (!words.empty()) line.typed = words.back();
  const size_t equals = line.typed.find('=');
  if (line.asks == nullptr && line.typed.starts_with("--") && equals != std::string::npos) {
    line.asks = find_option(*line.command, line.typed.substr(0, equals));
    line.before = line.typed.substr(0, equals + 1);
    line.typed = line.typed.substr(equals + 1);
  }
  return line;
}

/// Entries of the folder in `typed`; only files with one of `endings`, if there are any.
Candidates files(const std::string& typed, const std::set<std::string>& endings) {
  const size_t slash = typed.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : typed.substr(0, slash + 1);
  const std::string begun = typed.substr(folder.size());
  Candidates found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begun) || (name.starts_with(".") && begun.empty())) continue;
    if (entry.is_directory(none)) {
      found.push_back({folder + name + "/"});
    } else if (endings.empty() || endings.contains(entry.path().extension().string())) {
      found.push_back({folder + name});
    }
  }
  return found;
}

/// Lists candidates for the words of one command line.
class Offers {
 public:
  Offers(const TypedLine& line, Session& session) : line_(line), session_(session) {}

  Candidates of(const CLI::Option& option) const {
    if (const auto choices = choices_of(option); !choices.empty()) return words(choices);
    const std::string kind = value_word(option);
    if (kind.starts_with("RUN")) return runs();
    if (kind == "JOB") return jobs();
    if (kind == "STEP") return steps();
    if (kind == "METRIC") return metrics();
    if (kind == "KEY=VALUE") return settings();
    if (kind == "NAME" && is_of_profiles(option)) return words(known_profiles());
    if (kind == "WORKFLOW") return files(line_.typed, {".yaml", ".yml", ".dlflow"});
    if (kind == "BUNDLE") return files(line_.typed, {".dlflow"});
    const bool is_file = kind == "FILE" || kind == "FOLDER" || kind == "DIR" || kind == "SOURCE";
    return is_file ? files(line_.typed, {}) : Candidates();
  }

 private:
  bool is_of_profiles(const CLI::Option& option) const {
    const CLI::App* parent = line_.command->get_parent();
    return option.get_name() == "--profile" ||
           (option.get_positional() && parent != nullptr && parent->get_name() == "profile");
  }

  Candidates runs() const {
    Candidates found;
    for (const RunSummary& run : session_.store().runs()) {
      found.push_back({run.run, std::string(name(run.state))});
    }
    return found;
  }

  /// The jobs of the run that the line names, otherwise of the newest; none if there is no run.
  std::vector<JobRow> rows() const {
    try {
      const bool named = !line_.arguments.empty();
      return session_.store().status(find_run(session_, named ? line_.arguments.front() : "")).jobs;
    } catch (const Error&) {
      return {};
    }
  }

  /// The workflow that the line names.
  std::optional<Workflow> workflow() const {
    for (const std::string& word : line_.arguments) {
      if (!word.ends_with(".yaml") && !word.ends_with(".yml")) continue;
      auto parsed = parse_workflow(word, {}, {.check_files = false});
      if (auto* workflow = std::get_if<Workflow>(&parsed)) return std::move(*workflow);
    }
    return std::nullopt;
  }

  Candidates jobs() const {
    Candidates found;
    for (const JobRow& job : rows()) found.push_back({job.job, std::string(name(job.state))});
    return found;
  }

  Candidates steps() const {
    if (const auto named = workflow()) return words(step_names(*named));
    Candidates found;
    for (const JobRow& job : rows()) {
      if (found.empty() || found.back().word != job.step) found.push_back({job.step});
    }
    return found;
  }

  Candidates metrics() const {
    std::set<std::string> names;
    for (const JobRow& job : rows()) {
      for (const auto& [name, value] : job.metrics.items()) names.insert(name);
    }
    return words(names);
  }

  /// The parameters of the workflow; when resubmitting a run, the changeable settings of its jobs.
  Candidates settings() const {
    Candidates found;
    if (line_.command->get_name() == "resubmit") {
      for (const char* key : {"walltime=", "memory=", "cpus_per_rank=", "gpus_per_rank=", "ranks="})
        found.push_back({key});
      return found;
    }
    const auto named = workflow();
    if (!named) return found;
    for (const auto& [key, value] : named->params.items()) {
      found.push_back({key + "=", value.dump()});
    }
    return found;
  }

  static Candidates words(const auto& all) {
    Candidates found;
    for (const std::string& word : all) found.push_back({word});
    return found;
  }

  const TypedLine& line_;
  Session& session_;
};

/// The argument to which the typed word belongs.
const CLI::Option* next_argument(const TypedLine& line) {
  size_t place = 0;
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : line.command->get_options()) {
    if (!option->get_positional()) continue;
    last = option;
    if (place++ == line.arguments.size()) return option;
  }
  return last != nullptr && may_be_repeated(*last) ? last : nullptr;
}

Candidates option_candidates(const CLI::App& command) {
  Candidates found;
  for (const CLI::Option* option : all_options(command)) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) {
      const bool known = std::ranges::find(found, "--" + name, &Candidate::word) != found.end();
      if (!known) found.push_back({"--" + name, option->get_description()});
    }
  }
  return found;
}

/// The candidates that begin with the typed word, with the preceding part of the word restored.
Candidates fitting(Candidates all, const TypedLine& line) {
  std::erase_if(all, [&](const Candidate& c) { return !c.word.starts_with(line.typed); });
  for (Candidate& candidate : all) candidate.word = line.before + candidate.word;
  return all;
}

/// The words of a bash command line, the last of which is incomplete.
struct BashLine {
  std::vector<std::string> words = {""};
  char quote = '\0';  ///< open at the end of the line
  size_t opened = 0;  ///< bytes of the last word before that quote
};

BashLine read_bash(const std::string& line) {
  BashLine read;
  auto& [words, quote, opened] = read;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        words.back() += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      opened = words.back().size();
    } else if (c == '\\' && i + 1 < line.size()) {
      words.back() += line[++i];
    } else if (c == ' ' || c == '\t') {
      if (!words.back().empty()) words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return read;
}

/// Quotes `word` for bash, where `quote` is open. Brackets are quoted only in file names:
/// `fit[lr=1]` stands for itself.
std::string quoted_for_bash(const std::string& word, char quote) {
  std::error_code none;
  std::string special = " !\"#$&'()*;<>?\\`{|}~";
  if (quote == '"') special = "!\"$\\`";
  if (quote == '\'') special = "'";
  if (quote == '\0' && fs::exists(word, none)) special += '[';
  std::string quoted;
  for (const char c : word) {
    if (special.find(c) == std::string::npos) {
      quoted += c;
    } else if (quote == '\'' || (quote == '"' && c == '!')) {  // no backslash helps in there
      quoted += {quote, '\\', c, quote};
    } else {
      quoted += {'\\', c};
    }
  }
  return quoted;
}

}  // namespace

std::vector<Candidate> candidates(const CLI::App& app, Session& session,
                                  std::span<const std::string> words) {
  const TypedLine line = read_line(app, words);
  const Offers offers(line, session);
  if (line.asks != nullptr) return fitting(offers.of(*line.asks), line);
  if (line.typed.starts_with("-")) return fitting(option_candidates(*line.command), line);
  Candidates found;
  const bool is_help = line.command->get_name() == "help";
  const CLI::App* of_help = &app;  // `help profile `: the verbs of profile
  for (const std::string& word : line.arguments) {
    if (is_help) of_help = app.get_subcommand(word);
  }
  for (const CLI::App* verb : shown_verbs(is_help ? *of_help : *line.command)) {
    if (is_help || line.arguments.empty()) {
      found.push_back({verb->get_name(), verb->get_description()});
    }
  }
  if (const CLI::Option* argument = next_argument(line); argument != nullptr && !is_help) {
    const Candidates more = offers.of(*argument);
    found.insert(found.end(), more.begin(), more.end());
  }
  return fitting(std::move(found), line);
}

void complete(const CLI::App& app, Session& session, std::span<const std::string> arguments) {
  if (arguments.empty()) return;
  const bool bash = arguments.front() == "bash";
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  char quote = '\0';
  size_t kept = 0;  // bytes that bash treats as separate words
  if (bash && !words.empty()) {
    BashLine line = read_bash(words.front());
    words = std::move(line.words);
    quote = line.quote;
    words.erase(words.begin());  // the word `dlflow`
    if (words.empty()) words.emplace_back();
    kept = quote == '\0' ? words.back().find_last_of("=:") + 1 : line.opened;  // or 0
  }
  try {
    for (const Candidate& candidate : candidates(app, session, words)) {
      const std::string& word = candidate.word;
      if (!bash) {
        const std::string text = candidate.text.empty() ? "" : "\t" + candidate.text;
        std::printf("%s%s\n", escaped(word).c_str(), text.c_str());
      } else if (escaped(word) == word) {  // others cannot be typed
        std::printf("%s\n", quoted_for_bash(word.substr(kept), quote).c_str());
      }
    }
  } catch (const std::exception&) {  // it offers nothing then
  }
}

}  // namespace dlflow
