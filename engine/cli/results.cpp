#include "engine/report/results.h"

#include <cstdio>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/plan/run_directory.h"

namespace dlflow {
namespace {

struct ResultsArguments {
  std::vector<std::string> runs;
  std::string step;
  std::string sort;
  bool reverse = false;
  bool csv = false;
};

/// The runs that `words` name, oldest first: runs, or workflows with all of their runs.
std::vector<std::string> find_runs(Session& session, const std::vector<std::string>& words) {
  if (words.empty()) return {find_run(session, "")};
  const std::vector<RunSummary> known = session.store().runs();
  std::vector<std::string> runs;
  for (const std::string& word : words) {
    const size_t before = runs.size();
    for (const RunSummary& run : known) {
      if (run.workflow == word) runs.insert(runs.begin() + long(before), run.run);
    }
    if (runs.size() == before) runs.push_back(session.store().resolve(word));
  }
  return runs;
}

std::vector<Result> read_results(Session& session, const ResultsArguments& arguments) {
  std::vector<Result> results;
  std::vector<std::string> steps;
  const std::vector<std::string> runs = find_runs(session, arguments.runs);
  for (const std::string& run : runs) {
    const RunStatus status = refresh_run(session, run);
    const Plan plan = load_run(status.directory);
    for (Result& result : results_of(plan, status, arguments.step)) {
      results.push_back(std::move(result));
    }
    for (std::string& step : step_names(plan.workflow)) steps.push_back(std::move(step));
  }
  remove_repeated(results);
  if (results.empty() && !arguments.step.empty()) {
    throw Error(Errc::NotFound, "no run here has a step '" + arguments.step + "'" +
                                    did_you_mean(arguments.step, steps));
  }
  if (results.empty() && !arguments.sort.empty()) {
    throw Error(Errc::NotFound, "no job of " + runs.back() +
                                    " has succeeded with metrics; `dlflow status " + runs.back() +
                                    "` shows why");
  }
  return results;
}

/// The run and job with the best result of each step.
std::set<std::pair<std::string, std::string>> best_jobs(std::span<const Result> results) {
  std::map<std::string, std::vector<Result>> by_step;
  for (const Result& result : results) by_step[result.step].push_back(result);
  std::set<std::pair<std::string, std::string>> best;
  for (const auto& [step, same] : by_step) {
    if (const Result* found = best_of(same)) best.emplace(found->run, found->job);
  }
  return best;
}

void show_results(Session& session, const ResultsArguments& arguments) {
  std::vector<Result> results = read_results(session, arguments);
  if (!arguments.sort.empty()) {
    sort_results(results, arguments.sort, arguments.reverse ? Order::WorstFirst : Order::BestFirst);
  }
  if (session.json) {
    Json list = Json::array();
    const auto best = best_jobs(results);
    for (const Result& result : results) {
      Json entry = to_json(result);
      entry["best"] = best.contains({result.run, result.job});
      list.push_back(std::move(entry));
    }
    print_json(list);
  } else if (arguments.csv) {
    std::fputs(results_csv(results).c_str(), stdout);
  } else if (results.empty()) {
    std::printf("No step has written metrics yet (a program writes them to $DLFLOW_SUMMARY).\n");
  } else {
    std::fputs(results_table(results, arguments.sort, session.style()).c_str(), stdout);
  }
}

}  // namespace

void add_results(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "results", "Show the parameters and the metrics of jobs.", R"(
  dlflow results sweep-7f3a91c0 --sort accuracy
  dlflow results sweep --sort loss                (all runs of a workflow)
  dlflow results sweep-7f3a91c0 sweep-91c0e5d2 --csv > sweep.csv)");
  const auto arguments = std::make_shared<ResultsArguments>();
  add_value(*command, "runs", "RUN", arguments->runs,
            "runs or workflows; the newest run if left out");
  add_value(*command, "--step", "STEP", arguments->step, "only this step");
  const auto sort = command->add_option(
      "--sort", arguments->sort,
      "sort by this metric, the best first: the smallest of metrics whose name contains loss, "
      "error, mae, mse, perplexity, cost, latency, regret, bias, crps, wer, bytes or energy and of "
      "times (_s), the largest of others, unless a step of the workflow selects otherwise");
  sort->type_name("METRIC");
  command->add_flag("--reverse", arguments->reverse, "the worst first")->needs(sort);
  const auto csv = command->add_flag("--csv", arguments->csv, "print comma-separated values");
  add_json_option(*command, session);
  command->get_option("--json")->excludes(csv);
  command->callback([=, &session] { show_results(session, *arguments); });
}

}  // namespace dlflow
