#include "base/file.h"
#include "base/output_file.h"
#include "base/process.h"
#include "base/roff.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/cli/help.h"

/// Man pages in roff (man(7)), made from the definition of the command line itself.
namespace dlflow {
namespace {

using roff::bold;
using roff::italic;
using roff::plain;

/// "dlflow profile check" -> "dlflow-profile-check"
std::string page_name(const std::string& command) {
  std::string name = command;
  for (char& c : name) c = c == ' ' ? '-' : c;
  return name;
}

std::string words_of(const CLI::Option& option) {
  const std::string word = value_word(option);
  if (option.get_positional()) return italic(word);
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(bold("-" + name));
  for (const std::string& name : option.get_lnames()) names.push_back(bold("--" + name));
  return join(names, ", ") + (word.empty() ? "" : " " + italic(word));
}

std::string list_of_options(const CLI::App& command, bool positional) {
  std::string list;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() != positional || option->get_group().empty()) continue;
    list += roff::item(words_of(*option), option->get_description());
  }
  return list;
}

std::string synopsis(const CLI::App& command, const std::string& name) {
  std::string text = bold(name) + " [" + italic("OPTIONS") + "]";
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    text += option->get_required() ? " " + words_of(*option) : " [" + words_of(*option) + "]";
  }
  if (!shown_verbs(command).empty()) text += " " + italic("VERB");
  return text;
}

constexpr const char* kExitStatus =
    ".TP\n0\nDone.\n.TP\n1\nA step failed.\n.TP\n2\nThe input is wrong.\n"
    ".TP\n3\nThe back end refused or did not answer.\n.TP\n130\nInterrupted.\n";

std::string without_ticks(const std::string& cell) {
  std::string text(trim(cell));
  std::erase(text, '`');
  return text;
}

/// The tables of environment.md as roff: only those below its heading "Files", or all others.
std::string tables_of(const std::string& page, bool files) {
  std::string items;
  bool is_wanted = false;
  for (const std::string& line : split(page, '\n')) {
    if (line.starts_with("## ")) {
      is_wanted = (line == "## Files") == files;
      if (is_wanted && !files) items += ".SS " + plain(without_ticks(line.substr(3))) + "\n";
    } else if (is_wanted && line.starts_with("| `")) {
      const std::vector<std::string> cells = split(line, '|');
      items += roff::item(bold(without_ticks(cells.at(1))), without_ticks(cells.at(2)));
    }
  }
  return items;
}

/// ", dlflow-train(1), ..." for the man page of dlflow: the programs built beside it.
std::string other_programs() {
  const std::filesystem::path folder = this_program().parent_path();
  std::string pages;
  for (const char* name : {"dlflow-train", "dlflow-evaluate"}) {
    if (std::filesystem::exists(folder / name)) pages += ",\n" + bold(name) + "(1)";
  }
  return pages;
}

/// `surroundings` is placed before the exit status.
std::string man_page(const CLI::App& command, const std::string& name,
                     const std::string& surroundings) {
  std::string verbs, see_also;
  for (const CLI::App* verb : shown_verbs(command)) {
    verbs += roff::item(bold(verb->get_name()), verb->get_description());
    see_also +=
        (see_also.empty() ? "" : ",\n") + bold(page_name(name + " " + verb->get_name())) + "(1)";
  }
  if (see_also.empty()) see_also = bold("dlflow") + "(1)";
  if (command.get_parent() == nullptr) see_also += other_programs();
  const std::string footer = command.get_footer();  // "Examples:", then text common to all pages
  const std::string examples = footer.substr(0, footer.find("\n\n"));
  return roff::heading(page_name(name), command.get_description()) +
         roff::section("SYNOPSIS", synopsis(command, name) + "\n") + roff::section("VERBS", verbs) +
         roff::section("ARGUMENTS", list_of_options(command, true)) +
         roff::section("OPTIONS", list_of_options(command, false)) +
         roff::section("EXAMPLES", roff::literal(examples.substr(examples.find('\n') + 1))) +
         surroundings + roff::section("EXIT STATUS", kExitStatus) +
         roff::section("SEE ALSO", see_also + "\n");
}

/// Writes the pages of `command` and of its verbs as files in `folder`.
void write_pages(const CLI::App& command, const std::string& name,
                 const std::filesystem::path& folder, const std::string& surroundings) {
  write_output(folder / (page_name(name) + ".1"), man_page(command, name, surroundings));
  for (const CLI::App* verb : shown_verbs(command)) {
    write_pages(*verb, name + " " + verb->get_name(), folder, "");
  }
}

}  // namespace

void add_man(CLI::App& app, Session&) {
  CLI::App* command = app.add_subcommand("man-pages", "Write the man pages into a folder.");
  command->group("");  // hidden: only the build calls it
  const auto folder = std::make_shared<std::string>();
  const auto environment = std::make_shared<std::string>();
  command->add_option("folder", *folder)->required();
  command->add_option("environment", *environment, "docs/user/environment.md")->required();
  command->callback([folder, environment, &app] {
    std::filesystem::create_directories(*folder);
    const std::string page = read_file(*environment);
    write_pages(app, "dlflow", *folder,
                roff::section("ENVIRONMENT", tables_of(page, false)) +
                    roff::section("FILES", tables_of(page, true)));
  });
}

}  // namespace dlflow
