#include "steps/environment/program_help.h"

#include <algorithm>
#include <string_view>

#include "base/roff.h"

namespace dlflow::steps {
namespace {

constexpr const char* kStartedBy =
    "It is a program of dlflow(1): `dlflow run` starts it for the steps of a workflow and sets the "
    "variables below. By hand:";

/// Formats the entries in two columns.
std::string columns(const std::vector<HelpEntry>& entries) {
  size_t width = 0;
  for (const HelpEntry& entry : entries) width = std::max(width, entry.name.size());
  std::string text;
  for (const HelpEntry& entry : entries) {
    text += "  " + entry.name + std::string(width - entry.name.size() + 2, ' ') + entry.meaning;
    text += '\n';
  }
  return text;
}

std::string items(const std::vector<HelpEntry>& entries) {
  std::string list;
  for (const HelpEntry& entry : entries) list += roff::item(roff::bold(entry.name), entry.meaning);
  return list;
}

}  // namespace

std::string help_text(const ProgramHelp& help) {
  return help.summary + "\n\n" + columns(help.commands) + "\n" + help.settings + "\n  " +
         help.example + "\n\nEnvironment, set by `dlflow run`, and the values without it:\n" +
         columns(help.variables) + "\nExit status:\n" + columns(help.exit_status);
}

std::string man_page(const ProgramHelp& help) {
  return roff::heading(help.name, help.summary) +
         roff::section("SYNOPSIS",
                       roff::bold(help.name) + " [" + roff::italic("WITH.JSON") + "]\n") +
         roff::section("DESCRIPTION", roff::plain(kStartedBy) + "\n" + items(help.commands)) +
         roff::section("SETTINGS",
                       roff::plain(help.settings) + "\n" + roff::literal("  " + help.example)) +
         roff::section("ENVIRONMENT", items(help.variables)) +
         roff::section("EXIT STATUS", items(help.exit_status)) +
         roff::section("SEE ALSO",
                       roff::bold("dlflow") + "(1),\n" + roff::bold("dlflow-run") + "(1)\n");
}

std::optional<std::string> asked_help(const ProgramHelp& help, int argc, char** argv) {
  const std::string_view asked = argc > 1 ? argv[1] : "";
  if (asked == "--help") return help_text(help);
  if (asked == "--man-page") return man_page(help);
  return std::nullopt;
}

}  // namespace dlflow::steps
