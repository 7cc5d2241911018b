#include "steps/environment/program_help.h"

#include "tests/support/catch.h"

using namespace dlflow::steps;

namespace {

ProgramHelp example() {
  return {.name = "dlflow-play",
          .summary = "Plays a step.",
          .commands = {{"dlflow-play WITH.JSON", "plays it"}, {"dlflow-play --help", "says this"}},
          .settings = "Its keys are in the manual.",
          .example = "{\"n\": 1}",
          .variables = {{"DLFLOW_X", "a value"}},
          .exit_status = {{"0", "done"}, {"75", "try again"}}};
}

}  // namespace

TEST_CASE("the help of a step program has its tables in columns", "[program help]") {
  CHECK(help_text(example()) ==
        "Plays a step.\n\n"
        "  dlflow-play WITH.JSON  plays it\n"
        "  dlflow-play --help     says this\n"
        "\nIts keys are in the manual.\n  {\"n\": 1}\n\n"
        "Environment, set by `dlflow run`, and the values without it:\n"
        "  DLFLOW_X  a value\n"
        "\nExit status:\n"
        "  0   done\n"
        "  75  try again\n");
}

TEST_CASE("the man page of a step program has the same tables", "[program help]") {
  const std::string page = man_page(example());
  size_t at = 0;
  for (const char* part :
       {"dlflow\\-play", "Plays a step", "SYNOPSIS", "WITH.JSON", "DESCRIPTION", "dlflow run",
        "plays it", "says this", "SETTINGS", "Its keys are in the manual.", "{\"n\": 1}",
        "ENVIRONMENT", "DLFLOW_X", "a value", "EXIT STATUS", "75", "try again", "SEE ALSO"}) {
    CAPTURE(part, page);
    at = page.find(part, at);
    REQUIRE(at != page.npos);
  }
}

TEST_CASE("a step program prints its help on request", "[program help]") {
  const auto asked = [](std::vector<const char*> argv) {
    return asked_help(example(), int(argv.size()), const_cast<char**>(argv.data()));
  };
  CHECK(asked({"p", "--help"}) == help_text(example()));
  CHECK(asked({"p", "--man-page"}) == man_page(example()));
  CHECK_FALSE(asked({"p", "with.json"}));
  CHECK_FALSE(asked({"p"}));
}
