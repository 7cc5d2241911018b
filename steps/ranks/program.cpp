#include "steps/ranks/program.h"

#include <cstdio>
#include <cstdlib>

#include "base/process.h"
#include "base/text.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/guard.h"
#include "steps/ranks/launch.h"

namespace dlflow::steps {
namespace {

/// Sets the variables that `dlflow run` would have set.
void set_defaults(const RankProgram& program, const char* with) {
  ::setenv("DLFLOW_WITH", with, 1);
  ::setenv("DLFLOW_OUTPUTS", "outputs", 0);
  ::setenv("DLFLOW_METRICS", "metrics.jsonl", 0);
  ::setenv("DLFLOW_SUMMARY", "metrics.json", 0);
  for (const auto& [name, value] : program.further_defaults) ::setenv(name, value, 0);
}

}  // namespace

std::vector<HelpEntry> variables_of_ranks(const std::vector<HelpEntry>& further) {
  std::vector<HelpEntry> all = {
      {"DLFLOW_WITH", "the settings, if there is no with.json among the arguments"},
      {"DLFLOW_OUTPUTS", "./outputs"},
      {"DLFLOW_METRICS", "./metrics.jsonl"},
      {"DLFLOW_SUMMARY", "./metrics.json"},
      {"DLFLOW_RANKS", "as many as are started; any other number is refused"},
      {"DLFLOW_RANK", "0; the number of this rank, if no MPI launcher has started it"},
      {"DLFLOW_CPUS_PER_RANK", "1"},
      {"DLFLOW_STALL_TIMEOUT", "60; seconds for which a rank that others wait for may do nothing"}};
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

int run_program(const RankProgram& program, int argc, char** argv) {
  if (const auto help = asked_help(program.help, argc, argv)) {
    std::fputs(help->c_str(), stdout);
    return 0;
  }
  const bool only_meets = argc > 1 && std::string(argv[argc - 1]) == "--meet";
  const bool starts = argc > 2 && std::string(argv[1]) == "--ranks";
  const int ranks = starts ? number_from<int>(argv[2]).value_or(0) : 1;
  if (ranks < 1) {
    std::fprintf(stderr, "error: --ranks: '%s' is not a whole number of at least 1\n", argv[2]);
    return 1;
  }
  if (starts) {
    argc -= 2;
    argv += 2;
  }
  if (only_meets) {
    if (starts) start_ranks(ranks);
    return run_rank(argc, argv, program.can_resume, [](runtime::Communicator&) { return 0; });
  }
  if (argc > 2 || (argc == 2 && argv[1][0] == '-') ||
      (argc == 1 && environment_variable("DLFLOW_WITH").empty())) {
    const char* const name = program.help.name.c_str();
    std::fprintf(stderr,
                 "error: there are no settings to %s; type %s with.json, or see %s --help\n",
                 program.task.c_str(), name, name);
    return 1;
  }
  if (argc == 2) set_defaults(program, argv[1]);
  if (starts) start_ranks(ranks);
  const GuardedRank guarded = guard_rank(program.can_resume);
  program.before_ranks();
  return run_rank(argc, argv, program.can_resume, program.work, guarded);
}

}  // namespace dlflow::steps
