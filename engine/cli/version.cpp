#include <cstdio>

#include "engine/cli/commands.h"

namespace dlflow {

void add_version(CLI::App& app, Session& session) {
  app.set_version_flag("--version", "dlflow " DLFLOW_VERSION);
  CLI::App* command = add_command(app, "version", "Print the version.", "  dlflow version");
  add_json_option(*command, session);
  command->callback([&session] {
    if (session.json) return print_json({{"version", DLFLOW_VERSION}});
    std::printf("dlflow %s\n", DLFLOW_VERSION);
  });
}

}  // namespace dlflow
