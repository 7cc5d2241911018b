#include <cstdio>

#include "base/text.h"
#include "engine/cli/commands.h"

namespace dlflow {
namespace {

struct Verb {
  std::string name;
  std::string sentence;
  std::vector<std::string> options;
  bool takes_run = false;
  bool takes_workflow = false;
};

bool has_positional(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() && option->get_name(true) == name) return true;
  }
  return false;
}

/// What the command line offers, read from the command line itself.
std::vector<Verb> verbs(const CLI::App& app) {
  std::vector<Verb> all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;  // for dlflow's own use
    Verb verb{command->get_name(), command->get_description(), {}};
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) verb.options.push_back("--" + name);
    }
    verb.takes_run = has_positional(*command, "run");
    verb.takes_workflow = has_positional(*command, "workflow");
    all.push_back(std::move(verb));
  }
  return all;
}

std::string names(const std::vector<Verb>& all) {
  std::vector<std::string> list;
  for (const Verb& verb : all) list.push_back(verb.name);
  return join(list, " ");
}

std::string bash(const std::vector<Verb>& all) {
  std::string cases;
  for (const Verb& verb : all) {
    std::string words = "\"" + join(verb.options, " ") + "\"";
    if (verb.takes_run)
      words = "\"" + join(verb.options, " ") + " $(dlflow list --quiet 2>/dev/null)\"";
    cases += "    " + verb.name + ") words=" + words + " ;;\n";
  }
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
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -X '!*.@(yaml|yml)' -- "
         "\"$word\"))\n"
         "}\n"
         "complete -o filenames -o default -F _dlflow dlflow\n";
}

std::string zsh(const std::vector<Verb>& all) {
  std::string list;
  std::string cases;
  for (const Verb& verb : all) {
    list += "    " + shell_quote(verb.name + ":" + verb.sentence) + "\n";
    cases += "    " + verb.name + ") compadd -- " + join(verb.options, " ");
    if (verb.takes_run) cases += "; compadd -- $(dlflow list --quiet 2>/dev/null)";
    if (verb.takes_workflow) cases += "; _files -g '*.(yaml|yml)'";
    cases += " ;;\n";
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
         cases +
         "  esac\n"
         "}\n"
         "compdef _dlflow dlflow\n";
}

std::string fish(const std::vector<Verb>& all) {
  std::string text =
      "# fish completion for dlflow; load it with:  dlflow completion fish | source\n"
      "complete -c dlflow -f\n";
  for (const Verb& verb : all) {
    text += "complete -c dlflow -n __fish_use_subcommand -a " + verb.name + " -d " +
            shell_quote(verb.sentence) + "\n";
    const std::string seen = " -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const std::string& option : verb.options) {
      text += "complete -c dlflow" + seen + " -l " + option.substr(2) + "\n";
    }
    if (verb.takes_run)
      text += "complete -c dlflow" + seen + " -a '(dlflow list --quiet 2>/dev/null)'\n";
    if (verb.takes_workflow) text += "complete -c dlflow" + seen + " -F\n";
  }
  return text;
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
