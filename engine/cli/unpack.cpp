#include <cstdio>

#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/bundle_summary.h"

namespace dlflow {
namespace {

void show_summary(const Session& session, const std::string& file) {
  const BundleSummary summary = summarize(file);
  if (session.json) return print_json(to_json(summary));
  std::fputs(to_text(summary).c_str(), stdout);
}

}  // namespace

void add_unpack(CLI::App& app, Session& session) {
  CLI::App* command =
      add_command(app, "unpack", "Unpack a bundle into a new folder, every file verified.", R"(
  dlflow unpack fashion-mnist.dlflow
  dlflow unpack --list fashion-mnist.dlflow
  dlflow unpack fashion-mnist.dlflow -C ~/workflows)");
  const auto file = std::make_shared<std::string>();
  const auto below = std::make_shared<std::string>(".");
  const auto list = std::make_shared<bool>(false);
  add_value(*command, "bundle", "BUNDLE", *file, "a file that `dlflow pack` wrote")->required();
  CLI::Option* const above =
      add_value(*command, "-C,--directory", "FOLDER", *below, "folder to make the new folder in")
          ->capture_default_str();
  command->add_flag("--list", *list, "show what is in the bundle; unpack nothing")->excludes(above);
  add_json_option(*command, session);
  command->callback([file, below, list, &session] {
    if (*list) return show_summary(session, *file);
    BundleReader bundle(*file);
    const Manifest& manifest = bundle.manifest();
    const std::filesystem::path folder =
        (std::filesystem::path(*below) / manifest.name).lexically_normal();
    bundle.unpack(folder);
    if (session.json) {
      return print_json({{"folder", folder.string()},
                         {"workflow", (folder / manifest.workflow).string()},
                         {"set", settings(manifest)},
                         {"files", manifest.files.size()}});
    }
    if (session.quiet) return;
    std::string again = "dlflow run " + shell_quote((folder / manifest.workflow).string());
    for (const std::string& setting : settings(manifest)) again += " --set " + shell_quote(setting);
    std::printf("%s: %zu files, every checksum matches.\n  %s\n", folder.c_str(),
                manifest.files.size(), again.c_str());
    if (manifest.run.empty()) return;
    std::printf("%s has the results of %s, for comparison; a run computes them again.\n",
                (folder / "run").c_str(), manifest.run.c_str());
  });
}

}  // namespace dlflow
