#include <cstdio>

#include "engine/cli/commands.h"
#include "engine/share/bundle_summary.h"

namespace dlflow {

void add_inspect(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, "inspect", "Show what is in a bundle, without unpacking it.",
                                  "  dlflow inspect fashion-mnist.dlflow\n"
                                  "  dlflow inspect fashion-mnist.dlflow --json");
  const auto file = std::make_shared<std::string>();
  command->add_option("bundle", *file, "a file that `dlflow pack` wrote")
      ->type_name("BUNDLE")
      ->required();
  add_json_option(*command, session);
  command->callback([file, &session] {
    const BundleSummary summary = summarize(*file);
    if (session.json) return print_json(to_json(summary));
    std::fputs(to_text(summary).c_str(), stdout);
  });
}

}  // namespace dlflow
