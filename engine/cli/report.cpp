#include <cstdio>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "engine/report/report_data.h"
#include "engine/report/report_page.h"
#include "engine/report/trace.h"

namespace dlflow {
namespace {

struct ReportArguments {
  std::vector<std::string> runs;
  std::string output;
  bool trace = false;
};

/// Writes to `file`, which may exist only if dlflow wrote it, too, and prints how to look at it.
void write_own(const Session& session, const std::string& file, const std::string& content,
               const char* advice) {
  const auto refuse = [&](const char* why) { throw Error(Errc::InvalidInput, file + why); };
  if (std::filesystem::is_directory(file)) refuse(" is a folder; name a file with -o");
  const std::string old = std::filesystem::is_regular_file(file) ? read_file(file) : "";
  if (!old.empty() && old.find("<title>report of dlflow</title>") == old.npos &&
      !old.starts_with(R"({"displayTimeUnit)")) {
    refuse(" exists and is no report of dlflow; name another file with -o");
  }
  write_output(file, content);
  if (session.json || session.quiet) return;
  std::printf("%s: %s; %s.\n", file.c_str(), format_size(content.size()).c_str(), advice);
}

void write_trace(Session& session, const ReportArguments& arguments) {
  if (arguments.runs.size() > 1)
    throw UsageError("a trace is of one run: dlflow report RUN --trace");
  const std::string word = arguments.runs.empty() ? "" : arguments.runs.front();
  const ReportedRun recorded = read_reported_run(session, find_run(session, word));
  const std::string file =
      arguments.output.empty() ? recorded.status.run + ".trace.json" : arguments.output;
  write_own(session, file, chrome_trace(recorded, SystemClock().now()),
            "open it in ui.perfetto.dev or chrome://tracing");
  if (session.json) print_json({{"run", recorded.status.run}, {"file", file}});
}

Json read_report(Session& session, const std::vector<std::string>& words) {
  std::vector<ReportedRun> runs;
  std::set<std::string> seen;
  for (const std::string& word : words.empty() ? std::vector<std::string>{""} : words) {
    const std::string run = find_run(session, word);
    if (seen.insert(run).second) runs.push_back(read_reported_run(session, run));
  }
  return report_data(runs, SystemClock().now());
}

void write_report(Session& session, const ReportArguments& arguments) {
  const Json data = read_report(session, arguments.runs);
  if (session.json) return print_json(data);
  const std::string output = arguments.output.empty()
                                 ? data["runs"][0]["run"].get<std::string>() + ".html"
                                 : arguments.output;
  write_own(session, output, report_page(data), "open it in any browser; it needs no network");
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "report", "Write one HTML page about runs: jobs, times, curves and metrics.", R"(
  dlflow report fashion-mnist-7f3a91c0 -o report.html
  dlflow report sweep-7f3a sweep-91c0      (compared with each other)
  dlflow report 7f3a --trace -o trace.json     (for ui.perfetto.dev))");
  const auto arguments = std::make_shared<ReportArguments>();
  add_value(*command, "runs", "RUN", arguments->runs, "runs; the newest one if left out");
  add_output_option(*command, arguments->output,
                    "the page, RUN.html unless given; the trace, RUN.trace.json");
  command->add_flag(
      "--trace", arguments->trace,
      "instead, write the jobs of a run, and the ranks of its training, on one time axis");
  add_json_option(*command, session);
  command->callback([arguments, &session] {
    arguments->trace ? write_trace(session, *arguments) : write_report(session, *arguments);
  });
}

}  // namespace dlflow
