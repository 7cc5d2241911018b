#pragma once

#include <string>
#include <vector>

/// A mistake in a file, with its place.
namespace dlflow {

/// 1-based; line 0 is "the file as a whole". Columns count bytes, as editors jump to them.
struct Location {
  int line = 0;
  int column = 0;
  bool operator==(const Location&) const = default;
};

struct Diagnostic {
  std::string file;
  Location location;
  std::string message;  ///< what is wrong, and a suggestion; no full stop, no "error:"
  bool operator==(const Diagnostic&) const = default;
};

/// "file:line:column: error: message"
std::string to_string(const Diagnostic& diagnostic);

using Diagnostics = std::vector<Diagnostic>;

}  // namespace dlflow
