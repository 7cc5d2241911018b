#include "engine/cli/usage.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/text.h"
#include "engine/cli/help.h"

namespace dlflow {
namespace {

/// Words of other tools and of earlier versions -> the corresponding verb.
const std::map<std::string, std::string>& other_words() {
  static const std::map<std::string, std::string> words = {
      {"submit", "run"},
      {"start", "run"},
      {"resume", "run --resume RUN"},
      {"ps", "status"},
      {"ls", "status"},
      {"queue", "status"},
      {"watch", "status --watch"},
      {"tail", "logs -f RUN"},
      {"top", "status RUN --watch"},
      {"log", "logs"},
      {"output", "logs"},
      {"stop", "cancel"},
      {"kill", "cancel"},
      {"scancel", "cancel"},
      {"retry", "resubmit"},
      {"restart", "resubmit"},
      {"remove", "rm"},
      {"delete", "rm"},
      {"clean", "rm --older-than 30d"},
      {"check", "validate"},
      {"lint", "validate"},
      {"export", "pack"},
      {"import", "unpack"},
      {"dag", "graph"},
      {"metrics", "results"},
      {"new", "init"},
      {"create", "init"},
      {"inspect", "unpack --list"},
      {"list", "status --quick"},
      {"nodes", "status --nodes"},
      {"prune", "rm --older-than"},
      {"trace", "report --trace"},
      {"version", "--version"},
  };
  return words;
}

/// Whether the previous version had this verb; such verbs still work.
bool is_old_verb(const std::string& word) {
  static const std::set<std::string> words = {"inspect", "list",  "nodes",
                                              "prune",   "trace", "version"};
  return words.contains(word);
}

bool has_option(const CLI::App& command, const std::string& word) {
  return command.get_option_no_throw(word) != nullptr;
}

/// The options of `command` and of its parents, with their dashes.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : all_options(command)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// A verb that has this option, which `command` lacks; empty if there is none.
std::string owner_of(const CLI::App& root, const std::string& word) {
  for (const CLI::App* verb : shown_verbs(root)) {
    if (has_option(*verb, word)) return command_words(*verb);
    if (std::string inner = owner_of(*verb, word); !inner.empty()) return inner;
  }
  return "";
}

const CLI::App& root_of(const CLI::App& command) {
  const CLI::App* app = &command;
  while (app->get_parent() != nullptr) app = app->get_parent();
  return *app;
}

/// Whether `word` is an option of `command` or of a parent.
bool is_option_of(const CLI::App& command, const std::string& word) {
  return word.size() >= 2 && word.front() == '-' && find_option(command, word) != nullptr;
}

/// "--set needs KEY=VALUE" if another option is in the place of its value; otherwise empty.
std::string forgotten_value(const CLI::App& command) {
  for (const CLI::Option* option : all_options(command)) {
    if (option->get_positional()) continue;
    for (const std::string& value : option->results()) {
      if (!is_option_of(command, value)) continue;
      return option_word(*option) + " needs " + value_word(*option) + ", and " + value +
             " is an option";
    }
  }
  return "";
}

/// "; did you mean '--set'?" for an option of other tools; otherwise empty.
std::string option_elsewhere(const CLI::App& command, const std::string& word) {
  static const std::map<std::string, std::string> options = {
      {"-s", "--set"},     {"--params", "--set"},
      {"-p", "--profile"}, {"--cluster", "--profile"},
      {"-d", "--detach"},  {"--background", "--detach"}};
  const auto ours = options.find(word);
  if (ours != options.end() && has_option(command, ours->second)) {
    return "; did you mean '" + ours->second + "'?";
  }
  if (word.find('=') == word.npos || !has_option(command, "--set")) return "";
  const std::string near = nearest(word.substr(0, word.find('=')), option_names(command));
  return near.empty() ? "; did you mean '--set " + word.substr(2) + "'?" : "";
}

std::string no_such_option(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string text = "`" + command_words(command) + "` has no option " + name;
  if (name == "--results") return text + "; it is --step now";
  if (name == "--trust-results") {
    return text + " any more: run the bundle, which computes its results again; a group " +
           "can share results through a common cache (`paths: {cache: FOLDER}` in the "
           "profile)";
  }
  std::string advice = option_elsewhere(command, word);
  if (advice.empty()) advice = did_you_mean(name, option_names(command));
  if (advice.empty() && name == "-o") advice = "; it prints, so add > FILE";
  if (advice.empty()) {
    const std::string owner = owner_of(root_of(command), name);
    if (!owner.empty()) advice = "; `" + owner + "` has one";
  }
  return text + advice;
}

/// "RUN", "JOB": the arguments of a verb.
std::vector<std::string> positionals_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) words.push_back(value_word(*option));
  }
  return words;
}

std::string one_word_too_many(const CLI::App& command, const std::string& word) {
  const std::vector<std::string> taken = positionals_of(command);
  return "'" + word + "' is one word too many: `" + command_words(command) + "` takes " +
         (taken.empty() ? "none" : join(taken, " "));
}

/// The option or argument at the beginning of a message from the library.
const CLI::Option* named_in(const CLI::App& command, const std::string& text) {
  const CLI::Option* best = nullptr;
  size_t longest = 0;
  for (const CLI::Option* option : all_options(command)) {
    const std::string name = option->get_name();
    if (text.find(name) == std::string::npos || name.size() <= longest) continue;
    best = option;
    longest = name.size();
  }
  return best;
}

/// "--set KEY=VALUE"
std::string with_value(const CLI::Option& option) {
  const std::string value = option.get_positional() ? "" : value_word(option);
  return option_word(option) + (value.empty() ? "" : " " + value);
}

std::string missing(const CLI::App& command, const CLI::Option& option) {
  const std::string typed =
      option.get_positional() ? join(positionals_of(command), " ") : with_value(option);
  return "`" + command_words(command) + "` needs " + option_word(option) + ": " +
         command_words(command) + " " + typed;
}

std::string bad_value(const CLI::Option& option) {
  const std::vector<std::string>& given = option.results();
  const std::string value = given.empty() ? "" : given.back();
  if (value.empty()) return option_word(option) + " is empty; is a variable of the shell unset?";
  const std::vector<std::string> choices = choices_of(option);
  std::string text = option_word(option) + ": '" + value + "' is ";
  if (choices.empty()) {
    const std::string word = value_word(option);
    if (word == "SHARE") return text + "not a share between 0 and 1; write 0.1 for a tenth";
    if (word == "FILE") return text + "not an existing file";
    if (word != "N") return text + "not a value";
    return text + (number_from<double>(value) ? "too small or too large" : "not a number");
  }
  return text + "not one of " + join(choices, ", ") + did_you_mean(value, choices);
}

std::string pair_of(const CLI::App& command, const std::string& text, const std::string& between,
                    const std::string& words) {
  const size_t middle = text.find(between);
  const CLI::Option* first = named_in(command, text.substr(0, middle));
  const CLI::Option* second = named_in(command, text.substr(middle + between.size()));
  if (first == nullptr || second == nullptr) return text;
  return option_word(*first) + words + with_value(*second);
}

}  // namespace

void refuse_options_as_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name() == "RUN") {  // `dlflow cancel "$run"` does not mean the newest run
      option->check([](const std::string& value) {
        return std::string(value.empty() ? "the name is empty" : "");
      });
    }
    const bool takes_value = !option->get_positional() && option->get_items_expected_max() > 0;
    if (!takes_value) continue;
    option->check([&app](const std::string& value) {
      return std::string(is_option_of(app, value) ? "a value is missing" : "");
    });
  }
  for (CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    refuse_options_as_values(*verb);
  }
}

const CLI::App& chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::vector<std::string> with_new_verb(std::vector<std::string> words) {
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const auto verb = std::ranges::find_if_not(words, is_option);
  if (verb == words.end() || !is_old_verb(*verb)) return words;
  const std::string& now = other_words().at(*verb);
  std::fprintf(stderr, "`dlflow %s` is now `dlflow %s`\n", verb->c_str(), now.c_str());
  std::vector<std::string> in_place = split(now, ' ');
  if (*verb == "prune") in_place.pop_back();  // --older-than or --keep follows
  words.insert(words.erase(verb), in_place.begin(), in_place.end());
  return words;
}

std::string no_such_verb(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* verb : shown_verbs(command)) names.push_back(verb->get_name());
  const std::string text = "there is no command '" + command.get_name() + " " + word + "'";
  if (word == "lock") return text + "; write the `digest:` of each image into the workflow";
  if (word == "export" && command.get_name() == "model") {
    return text + "; a step `uses: checkpoint` with `export: onnx` writes a model";
  }
  const auto other = other_words().find(word);
  if (command.get_parent() == nullptr && other != other_words().end()) {
    const std::string verb = other->second.substr(0, other->second.find(' '));
    if (std::find(names.begin(), names.end(), verb) != names.end()) {
      return text + "; did you mean '" + other->second + "'?";
    }
  }
  return text + did_you_mean(word, names);
}

std::string mistake_in(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = chosen_command(app);
  std::string text = error.what();
  if (error.get_name() == "ValidationError") {
    if (std::string forgotten = forgotten_value(command); !forgotten.empty()) return forgotten;
  }
  const std::vector<std::string> words = app.remaining(true);
  if (!words.empty()) {
    if (words.front().starts_with("-")) return no_such_option(command, words.front());
    if (!shown_verbs(command).empty()) return no_such_verb(command, words.front());
    return one_word_too_many(command, words.front());
  }
  if (error.get_name() == "RequiredError" && !shown_verbs(command).empty()) return "";
  if (error.get_name() == "ExcludesError") {
    const std::string pair = pair_of(command, text, " excludes ", " cannot be used with ");
    return pair + "; leave one of them out";
  }
  if (error.get_name() == "RequiresError") return pair_of(command, text, " requires ", " needs ");
  const CLI::Option* option = named_in(command, text);
  if (option == nullptr) return text;
  if (error.get_name() == "RequiredError") return missing(command, *option);
  if (error.get_name() == "ArgumentMismatch") {
    const std::string value = value_word(*option);
    return option_word(*option) + (value.empty() ? " takes no value" : " needs " + value);
  }
  if (error.get_name() == "ValidationError" || error.get_name() == "ConversionError") {
    return bad_value(*option);
  }
  return text;
}

std::string help_hint(const CLI::App& command) {
  return "Try `" + command_words(command) + " --help`.";
}

}  // namespace dlflow
