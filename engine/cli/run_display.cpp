#include "engine/cli/run_display.h"

#include <cstdio>

#include "engine/report/live_display.h"

namespace dlflow {

std::unique_ptr<Observer> make_run_display(const Session& session) {
  const int descriptor = session.json ? 2 : 1;  // standard output is for the last line alone
  const Style style = detect_style(descriptor, session.color);
  if (is_terminal(descriptor) && !session.quiet && !session.verbose) {
    return std::make_unique<LiveDisplay>(descriptor, style);
  }
  return std::make_unique<LineDisplay>(descriptor, style, !session.quiet);
}

void print_run_json(const std::string& run, RunState state) {
  std::printf("%s\n", Json{{"run", run}, {"state", name(state)}}.dump().c_str());
}

}  // namespace dlflow
