#include "engine/report/graph_picture.h"

#include "base/error.h"
#include "base/process.h"
#include "engine/report/graph_text.h"

namespace dlflow {

std::string graph_as_svg(const Workflow& workflow) {
  Command dot;
  dot.argv = {"dot", "-Tsvg"};
  dot.environment = current_environment();
  try {
    const Output picture = run(std::move(dot), graph_as_dot(workflow));
    if (picture.status.code != 0) {
      throw Error(Errc::Unavailable,
                  "dot ended with exit status " + std::to_string(picture.status.code));
    }
    return picture.text;
  } catch (const Error& error) {
    if (error.code() != Errc::NotFound) throw;
    throw Error(
        Errc::NotFound,
        "drawing an SVG needs `dot` (Debian's package graphviz); --format mermaid needs nothing");
  }
}

}  // namespace dlflow
