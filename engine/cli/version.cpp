#include <cstdio>

#include "engine/cli/commands.h"

namespace dlflow {

void add_version(CLI::App& app, Session&) {
  app.set_version_flag("--version", "dlflow " DLFLOW_VERSION);
  CLI::App* command = add_command(app, "version", "Print the version.", "  dlflow version");
  command->callback([] { std::printf("dlflow %s\n", DLFLOW_VERSION); });
}

}  // namespace dlflow
