#include <cstdio>
#include <map>

#include "engine/cli/commands.h"

/// The completion scripts. They call `dlflow complete`, which lists the existing runs, jobs,
/// profiles and parameters.
namespace dlflow {
namespace {

constexpr const char* kBashScript =
    R"(# bash completion for dlflow; load it with:  source <(dlflow completion bash)
_dlflow() {
  mapfile -t COMPREPLY < <(dlflow complete bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  case ${COMPREPLY[0]-} in
    *=|*/) compopt -o nospace 2>/dev/null ;;
  esac
}
complete -o default -F _dlflow dlflow
)";

constexpr const char* kZshScript =
    R"(#compdef dlflow
# zsh completion for dlflow; load it with:  source <(dlflow completion zsh)
_dlflow() {
  local line
  local -a found shown begun
  for line in "${(@f)$(dlflow complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n $line ]] || continue
    if [[ ${line%%$'\t'*} == *[=/] ]]; then
      begun+=("${line%%$'\t'*}")
    else
      found+=("${line%%$'\t'*}")
      shown+=("${line/$'\t'/  -- }")
    fi
  done
  (( $#begun )) && compadd -S '' -a begun
  (( $#found )) && compadd -d shown -a found
  (( $#begun + $#found )) || _files
}
# As a file of $fpath, this is the body of _dlflow on its first call.
if [[ ${funcstack[1]} == _dlflow ]]; then _dlflow "$@"; else compdef _dlflow dlflow; fi
)";

constexpr const char* kFishScript =
    R"(# fish completion for dlflow; load it with:  dlflow completion fish | source
function __dlflow_complete
  set -l words (commandline -opc)
  dlflow complete fish $words[2..-1] (commandline -ct | string collect --allow-empty) 2>/dev/null
end
complete -c dlflow -f -a '(__dlflow_complete)'
)";

}  // namespace

void add_completion(CLI::App& app, Session&) {
  CLI::App* command = add_command(app, "completion", "Print the completion script of a shell.", R"(
  source <(dlflow completion bash)
  dlflow completion fish > ~/.config/fish/completions/dlflow.fish)");
  command->group("");  // hidden: an installation does this once
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "the shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell] {
    const std::map<std::string, const char*> scripts = {
        {"bash", kBashScript}, {"zsh", kZshScript}, {"fish", kFishScript}};
    std::fputs(scripts.at(*shell), stdout);
  });
}

}  // namespace dlflow
