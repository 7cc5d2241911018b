#include "engine/cli/help.h"

#include <algorithm>
#include <cstdio>

#include "base/roff.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

constexpr size_t kWidth = 80;

/// "  WORD   text", with the text wrapped beside the words or, if these are long, below them.
std::string help_line(const std::string& words, const std::string& text, size_t column) {
  std::string lines = "  " + words;
  const bool beside = display_width(lines) + 2 <= column;
  lines += beside ? std::string(column - display_width(lines), ' ') : "";
  bool first = true;
  for (const std::string& part : wrap(text, kWidth - column)) {
    lines += (first && beside ? "" : "\n" + std::string(column, ' ')) + part;
    first = false;
  }
  return lines + "\n";
}

/// "-f,--follow", "--set KEY=VALUE"
std::string words_of_option(const CLI::Option& option) {
  std::string words = option.get_name(false, true);
  if (const std::string value = value_word(option); !value.empty()) words += " " + value;
  return words;
}

/// "[RUN]", "FILE..."
std::string usage_word(const CLI::Option& argument) {
  const std::string word = value_word(argument) + (may_be_repeated(argument) ? "..." : "");
  return argument.get_required() ? word : "[" + word + "]";
}

using Options = std::vector<const CLI::Option*>;

Options shown_options(const CLI::App& app, bool arguments) {
  return app.get_options([arguments](const CLI::Option* option) {
    return !option->get_group().empty() && option->get_positional() == arguments;
  });
}

std::string usage(const CLI::App& app) {
  std::vector<std::string> words;
  if (!shown_options(app, false).empty()) words.emplace_back("[OPTIONS]");
  for (const CLI::Option* argument : shown_options(app, true))
    words.push_back(usage_word(*argument));
  if (!shown_verbs(app).empty()) words.emplace_back("VERB");
  return "Usage: " + command_words(app) + " " + join(words, " ") + "\n";
}

/// The text of an option and its default: "the cluster to run on (local)".
std::string text_of(const CLI::Option& option) {
  const std::string& given = option.get_default_str();
  return option.get_description() + (given.empty() ? "" : " (" + given + ")");
}

std::string list_of(const Options& options) {
  constexpr size_t kColumn = 27;
  std::string lines;
  for (const CLI::Option* option : options) {
    const bool argument = option->get_positional();
    lines += help_line(argument ? value_word(*option) : words_of_option(*option), text_of(*option),
                       kColumn);
  }
  return lines;
}

/// The verbs of dlflow under the headings of their groups; the verbs of a verb under one heading.
std::string lists_of_verbs(const CLI::App& app) {
  size_t column = 0;
  for (const CLI::App* verb : shown_verbs(app)) {
    column = std::max(column, verb->get_name().size() + 4);
  }
  std::string lines, heading;
  for (const CLI::App* verb : shown_verbs(app)) {
    const std::string group = app.get_parent() == nullptr ? verb->get_group() : "Verbs";
    if (group != heading) lines += "\n" + group + ":\n";
    heading = group;
    lines += help_line(verb->get_name(), verb->get_description(), column);
  }
  return lines;
}

std::string section(const std::string& name, const std::string& lines) {
  return lines.empty() ? "" : "\n" + name + ":\n" + lines;
}

class HelpFormat : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    std::string text;
    for (const std::string& line : wrap(app->get_description(), kWidth)) text += line + "\n";
    text += usage(*app);
    text += lists_of_verbs(*app);
    text += section("Arguments", list_of(shown_options(*app, true)));
    text += section("Options", list_of(shown_options(*app, false)));
    const std::string footer = app->get_footer();
    return footer.empty() ? text : text + "\n" + footer + "\n";
  }
};

/// Finds the verb that `words` name, from `app` on. Throws UsageError.
const CLI::App& verb_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const CLI::App* const found = find_verb(*command, word);
    if (found == nullptr) throw UsageError(no_such_verb(*command, word));
    command = found;
  }
  return *command;
}

}  // namespace

std::string command_words(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : command_words(*parent) + " " + command.get_name();
}

std::vector<const CLI::App*> shown_verbs(const CLI::App& command) {
  std::vector<const CLI::App*> verbs;
  for (const CLI::App* verb : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (!verb->get_group().empty()) verbs.push_back(verb);
  }
  return verbs;
}

const CLI::App* find_verb(const CLI::App& command, const std::string& name) {
  const auto found =
      command.get_subcommands([&name](const CLI::App* verb) { return verb->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

std::vector<const CLI::Option*> all_options(const CLI::App& command) {
  std::vector<const CLI::Option*> all;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) all.push_back(option);
  }
  return all;
}

const CLI::Option* find_option(const CLI::App& command, const std::string& name) {
  const std::vector<const CLI::Option*> all = all_options(command);
  const auto found = std::ranges::find_if(
      all, [&name](const CLI::Option* option) { return option->check_name(name); });
  return found == all.end() ? nullptr : *found;
}

bool may_be_repeated(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

std::string value_word(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (!option.get_positional() && type.empty()) return "";  // a flag
  const std::string word = type.substr(0, type.find(':'));
  const bool plain = word.empty() || word == "TEXT" || word == "INT" || word == "UINT";
  if (!plain) return word;
  if (const auto choices = choices_of(option); !choices.empty()) return join(choices, "|");
  if (!option.get_positional()) return word == "TEXT" ? "WORD" : "N";
  return roff::capitals(option.get_name(true));
}

std::string option_word(const CLI::Option& option) {
  if (option.get_positional()) {
    return choices_of(option).empty() ? value_word(option) : roff::capitals(option.get_name(true));
  }
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  return option.get_snames().empty() ? option.get_name() : "-" + option.get_snames().front();
}

void use_help_format(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormat>());
  app.set_help_flag("-h,--help", "show this help");
}

void add_help(CLI::App& app, Session&) {
  CLI::App* command = add_command(app, "help", "Show the help of a verb.", R"(
  dlflow help run
  dlflow help profile check)");
  command->group("");  // hidden, as --help shows the same
  const auto words = std::make_shared<std::vector<std::string>>();
  add_value(*command, "verb", "VERB", *words, "a verb, and one of its own verbs");
  command->callback([words, &app] {
    // App::help() would take the typed word `help` for the verb.
    const CLI::App& verb = verb_of(app, *words);
    std::fputs(app.get_formatter()->make_help(&verb, "", CLI::AppFormatMode::Normal).c_str(),
               stdout);
  });
}

}  // namespace dlflow
