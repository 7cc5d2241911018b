#include <cstdio>

#include "engine/cli/commands.h"
#include "engine/report/json.h"
#include "engine/report/run_list.h"

namespace dlflow {

void add_list(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "list", "List the runs that are known here, without asking any cluster.",
                  "  dlflow list\n"
                  "  dlflow list --quiet        (only the names)");
  add_json_option(*command, session);
  command->callback([&session] {
    const auto runs = session.store().runs();
    if (session.json) {
      Json list = Json::array();
      for (const RunSummary& run : runs) list.push_back(to_json(run));
      print_json(list);
    } else if (session.quiet) {
      for (const RunSummary& run : runs) std::printf("%s\n", run.run.c_str());
    } else if (runs.empty()) {
      std::printf("No runs yet. Start one with `dlflow run WORKFLOW`.\n");
    } else {
      std::fputs(run_list(runs, {}, SystemClock().now(), session.style()).c_str(), stdout);
    }
  });
}

}  // namespace dlflow
