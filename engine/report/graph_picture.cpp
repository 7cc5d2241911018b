#include "engine/report/graph_picture.h"

#include <cstdlib>

#include "base/error.h"
#include "base/process.h"
#include "engine/report/graph_text.h"

namespace dlflow {

std::string graph_as_svg(const Workflow& workflow) {
  const char* path = std::getenv("PATH");
  const auto program = find_program("dot", path == nullptr ? "/usr/bin" : path);
  if (!program) {
    throw Error(
        Errc::NotFound,
        "drawing an SVG needs `dot` (Debian's package graphviz); --format mermaid needs nothing");
  }
  Command dot;
  dot.argv = {program->string(), "-Tsvg"};
  dot.environment = current_environment();
  const Output picture = run(std::move(dot), graph_as_dot(workflow));
  if (picture.status.code != 0) {
    throw Error(Errc::Unavailable,
                "dot ended with exit status " + std::to_string(picture.status.code));
  }
  return picture.text;
}

}  // namespace dlflow
