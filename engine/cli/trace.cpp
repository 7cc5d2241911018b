#include "engine/report/trace.h"

#include <cstdio>

#include "base/output_file.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/recorded_run.h"

namespace dlflow {

void add_trace(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "trace", "Write the jobs of a run, and the ranks of its training, on one time axis.",
      "  dlflow trace fashion-mnist-7f3a91c0 -o trace.json     (for ui.perfetto.dev)");
  const auto run = std::make_shared<std::string>();
  const auto output = std::make_shared<std::string>();
  command->add_option("run", *run, "a run's name, or enough of it; the newest if left out")
      ->type_name("RUN");
  command->add_option("-o,--output", *output, "the trace; RUN.trace.json unless given")
      ->type_name("FILE");
  add_json_option(*command, session);
  command->callback([=, &session] {
    const ReportedRun recorded = read_reported_run(session, find_run(session, *run));
    const std::string file = output->empty() ? recorded.status.run + ".trace.json" : *output;
    const std::string trace = chrome_trace(recorded, SystemClock().now());
    write_output(file, trace);
    if (session.json) return print_json({{"run", recorded.status.run}, {"file", file}});
    if (session.quiet) return;
    std::printf("%s: %s; open it in ui.perfetto.dev or chrome://tracing.\n", file.c_str(),
                format_size(trace.size()).c_str());
  });
}

}  // namespace dlflow
