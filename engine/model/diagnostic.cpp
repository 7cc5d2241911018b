#include "engine/model/diagnostic.h"

namespace dlflow {

std::string to_string(const Diagnostic& diagnostic, const std::string& severity) {
  std::string text = diagnostic.file + ":";
  if (diagnostic.location.line > 0) {
    text += std::to_string(diagnostic.location.line) + ":" +
            std::to_string(diagnostic.location.column) + ":";
  }
  return text + " " + severity + ": " + diagnostic.message;
}

}  // namespace dlflow
