#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/removal.h"
#include "engine/cli/usage.h"

namespace dlflow {
namespace {

/// "data, train[lr=0.1] (310.0 MiB)"
std::string used_in_words(const Removal& removal) {
  constexpr size_t kShown = 3;
  std::vector<std::string> jobs;
  std::set<std::string> users;
  for (const auto& [folder, runs] : removal.used) {
    if (jobs.size() < kShown) {
      jobs.push_back(folder.lexically_relative(removal.directory / "steps").string());
    }
    users.insert(runs.begin(), runs.end());
  }
  if (removal.used.size() > kShown) jobs.push_back("…");
  std::string by = *users.begin();
  if (users.size() > 1) by += " and " + std::to_string(users.size() - 1) + " more";
  return join(jobs, ", ") + " (" + format_size(removal.kept_bytes) + ") stays, used by " + by;
}

void show(const Removal& removal, size_t width, bool dry_run) {
  const std::string size = format_size(removal.freed_bytes);
  const char* verb = dry_run ? "would be removed" : "removed";
  const std::string what =
      removal.used.empty() ? size + " " + verb : size + " " + verb + "; " + used_in_words(removal);
  std::printf("%-*s  %s\n", int(width), removal.run.c_str(), what.c_str());
}

void remove_all(Session& session, const std::vector<std::string>& runs, bool dry_run) {
  const std::vector<Removal> removals = plan_removals(session, runs);
  size_t width = 0;
  uint64_t freed = 0;
  Json list = Json::array();
  for (const Removal& removal : removals) width = std::max(width, removal.run.size());
  for (const Removal& removal : removals) {
    if (!dry_run) remove_run(session, removal);
    freed += removal.freed_bytes;
    if (session.json) {
      list.push_back({{"run", removal.run},
                      {"directory", removal.directory.string()},
                      {"freed_bytes", removal.freed_bytes},
                      {"kept_bytes", removal.kept_bytes}});
    } else if (!session.quiet) {
      show(removal, width, dry_run);
    }
  }
  if (session.json) {
    return print_json({{"removed", std::move(list)}, {"freed_bytes", freed}, {"dry_run", dry_run}});
  }
  if (session.quiet) return;
  std::printf("%s%s\n", format_size(freed).c_str(),
              dry_run ? " in all; nothing was removed." : " freed.");
}

/// What --keep and --older-than may take: of each workflow all but the newest `keep`, and of these
/// what ended (or, interrupted, began) longer ago than `age`.
std::vector<std::string> candidates(const std::vector<RunSummary>& newest_first, size_t keep,
                                    std::chrono::seconds age, Time now) {
  std::map<std::string, size_t> seen;
  std::vector<std::string> runs;
  for (const RunSummary& run : newest_first) {
    if (++seen[run.workflow] <= keep || run.state == RunState::Running) continue;
    if (now - run.ended.value_or(run.started) >= age) runs.push_back(run.run);
  }
  return runs;
}

struct RmArguments {
  std::vector<std::string> words;
  size_t keep = 0;
  std::string older_than = "0s";
  std::string gone;
  bool dry_run = false;
};

void remove_named(Session& session, const RmArguments& arguments) {
  std::vector<std::string> runs;
  for (const std::string& word : arguments.words) runs.push_back(session.store().resolve(word));
  for (const std::string& run : runs) check_idle(session, run, arguments.gone);
  remove_all(session, runs, arguments.dry_run);
}

void remove_old(Session& session, const RmArguments& arguments) {
  const std::chrono::seconds age = parse_duration(arguments.older_than);
  std::vector<std::string> idle;
  for (const std::string& run :
       candidates(session.store().runs(), arguments.keep, age, SystemClock().now())) {
    try {
      check_idle(session, run, arguments.gone);
      idle.push_back(run);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());  // it stays
    }
  }
  remove_all(session, idle, arguments.dry_run);
}

}  // namespace

void add_rm(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "rm", "Remove runs with their folders; results that other runs use stay.",
                  "  dlflow rm fashion-mnist-7f3a91c0\n"
                  "  dlflow rm --keep 5                       (the newest of each workflow)\n"
                  "  dlflow rm --keep 5 --older-than 30d --dry-run");
  const auto arguments = std::make_shared<RmArguments>();
  CLI::Option* const named =
      add_value(*command, "run", "RUN", arguments->words, "names of runs, or enough of them");
  const auto* keep = add_value(*command, "--keep", "N", arguments->keep,
                               "number of newest runs of each workflow to keep")
                         ->excludes(named);
  const auto* older = add_value(*command, "--older-than", "TIME", arguments->older_than,
                                "keep runs that ended more recently than this")
                          ->excludes(named);
  command->add_flag("-n,--dry-run", arguments->dry_run,
                    "show what would be removed; remove nothing");
  add_value(*command, "--gone", "CLUSTER", arguments->gone,
            "do not ask this cluster about jobs of the runs; it does not come back");
  add_json_option(*command, session);
  command->callback([=, &session] {
    if (!arguments->words.empty()) return remove_named(session, *arguments);
    if (keep->count() + older->count() == 0) {
      throw UsageError("name runs, or say which stay: --keep 5, --older-than 30d, or both");
    }
    remove_old(session, *arguments);
  });
}

}  // namespace dlflow
