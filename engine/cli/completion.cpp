#include <cstdio>

#include "base/text.h"
#include "engine/cli/commands.h"

namespace dlflow {
namespace {

struct Verb {
  std::string name;
  std::string sentence;
  std::vector<std::string> options = {};
  std::vector<Verb> verbs = {};  ///< what follows it: of `profile`, list, show, …
  bool takes_run = false;
  bool takes_workflow = false;
  bool takes_profile = false;
};

constexpr const char* kRuns = "$(dlflow list --quiet 2>/dev/null)";
constexpr const char* kProfiles = "$(dlflow profile list --quiet 2>/dev/null)";

bool has_positional(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_name(true) == name) return true;
  }
  return false;
}

/// The verbs of the command line, read from the command line itself.
std::vector<Verb> verbs(const CLI::App& app) {
  std::vector<Verb> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // for dlflow's own use
    Verb verb{command->get_name(), command->get_description()};
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) verb.options.push_back("--" + name);
    }
    verb.takes_run = has_positional(*command, "run");
    verb.takes_workflow =
        has_positional(*command, "workflow") || has_positional(*command, "bundle");
    verb.takes_profile = has_positional(*command, "name");
    verb.verbs = verbs(*command);
    all.push_back(std::move(verb));
  }
  return all;
}

std::string names(const std::vector<Verb>& all) {
  std::vector<std::string> list;
  for (const Verb& verb : all) list.push_back(verb.name);
  return join(list, " ");
}

std::string indented(int depth) { return std::string(size_t(4 * depth), ' '); }

/// The branches of a `case` on word `depth` of the line, which may be one of `all`.
std::string bash_cases(const std::vector<Verb>& all, int depth) {
  const std::string next = std::to_string(depth + 1);
  std::string cases;
  for (const Verb& verb : all) {
    cases += indented(depth) + verb.name + ") ";
    if (verb.verbs.empty()) {
      std::string words = join(verb.options, " ");
      if (verb.takes_run) words += std::string(" ") + kRuns;
      if (verb.takes_profile) words += std::string(" ") + kProfiles;
      cases += "words=\"" + words + "\" ;;\n";
      continue;
    }
    cases += "words=\"" + names(verb.verbs) + "\"\n" + indented(depth) +
             "  [ \"$COMP_CWORD\" -eq " + next + " ] || case ${COMP_WORDS[" + next + "]} in\n" +
             bash_cases(verb.verbs, depth + 1) + indented(depth) + "  esac ;;\n";
  }
  return cases;
}

std::string bash(const std::vector<Verb>& all) {
  return "# bash completion for dlflow; load it with:  source <(dlflow completion bash)\n"
         "_dlflow() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names(all) +
         "\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         bash_cases(all, 1) +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -X "
         "'!*.@(yaml|yml|dlflow)' -- "
         "\"$word\"))\n"
         "}\n"
         "complete -o filenames -o default -F _dlflow dlflow\n";
}

/// The same for zsh, which counts words from 1.
std::string zsh_cases(const std::vector<Verb>& all, int depth) {
  const std::string next = std::to_string(depth + 2);
  std::string cases;
  for (const Verb& verb : all) {
    cases += indented(depth) + verb.name + ") ";
    if (verb.verbs.empty()) {
      cases += "compadd -- " + join(verb.options, " ");
      if (verb.takes_run) cases += std::string("; compadd -- ") + kRuns;
      if (verb.takes_profile) cases += std::string("; compadd -- ") + kProfiles;
      if (verb.takes_workflow) cases += "; _files -g '*.(yaml|yml|dlflow)'";
    } else {
      cases += "if (( CURRENT == " + next + " )); then compadd -- " + names(verb.verbs) +
               "; else case $words[" + next + "] in\n" + zsh_cases(verb.verbs, depth + 1) +
               indented(depth) + "  esac; fi";
    }
    cases += " ;;\n";
  }
  return cases;
}

std::string zsh(const std::vector<Verb>& all) {
  std::string list;
  for (const Verb& verb : all) {
    list += "    " + shell_quote(verb.name + ":" + verb.sentence) + "\n";
  }
  return "#compdef dlflow\n"
         "# zsh completion for dlflow; load it with:  source <(dlflow completion zsh)\n"
         "_dlflow() {\n"
         "  local -a verbs=(\n" +
         list +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe verb verbs\n"
         "    return\n"
         "  fi\n"
         "  case $words[2] in\n" +
         zsh_cases(all, 1) +
         "  esac\n"
         "}\n"
         "# As a file of $fpath, this is the body of _dlflow on its first call.\n"
         "if [[ ${funcstack[1]} == _dlflow ]]; then _dlflow \"$@\"; else compdef _dlflow dlflow; "
         "fi\n";
}

/// What `all` offer; `where` is true of the line before them.
std::string fish_lines(const std::vector<Verb>& all, const std::string& where) {
  const std::string fish = "complete -c dlflow -n '";
  std::string text;
  for (const Verb& verb : all) {
    text += fish + where + "; and not __fish_seen_subcommand_from " + names(all) + "' -a " +
            verb.name + " -d " + shell_quote(verb.sentence) + "\n";
    const std::string seen = where + "; and __fish_seen_subcommand_from " + verb.name;
    for (const std::string& option : verb.options) {
      text += fish + seen + "' -l " + option.substr(2) + "\n";
    }
    // fish writes $(…) as (…).
    if (verb.takes_run) text += fish + seen + "' -a '" + (kRuns + 1) + "'\n";
    if (verb.takes_profile) text += fish + seen + "' -a '" + (kProfiles + 1) + "'\n";
    if (verb.takes_workflow) text += fish + seen + "' -F\n";
    text += fish_lines(verb.verbs, seen);
  }
  return text;
}

std::string fish(const std::vector<Verb>& all) {
  return "# fish completion for dlflow; load it with:  dlflow completion fish | source\n"
         "complete -c dlflow -f\n" +
         fish_lines(all, "true");
}

}  // namespace

void add_completion(CLI::App& app, Session&) {
  CLI::App* command =
      add_command(app, "completion", "Print the completion script of a shell.",
                  "  source <(dlflow completion bash)\n"
                  "  dlflow completion fish > ~/.config/fish/completions/dlflow.fish");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    const std::vector<Verb> all = verbs(app);
    const std::string text = *shell == "bash" ? bash(all) : *shell == "zsh" ? zsh(all) : fish(all);
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace dlflow
