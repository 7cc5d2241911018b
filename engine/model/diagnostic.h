#pragma once

#include <compare>
#include <string>
#include <vector>

/// A mistake in a file, with its place.
namespace dlflow {

/// 1-based; line 0 stands for the whole file. Columns count bytes, as editors do.
struct Location {
  int line = 0;
  int column = 0;
  auto operator<=>(const Location&) const = default;
};

struct Diagnostic {
  std::string file;
  Location location;
  std::string message;  ///< the mistake and a suggestion, without a full stop or "error:"
  bool operator==(const Diagnostic&) const = default;
};

/// "file:line:column: error: message"
std::string to_string(const Diagnostic& diagnostic, const std::string& severity = "error");

using Diagnostics = std::vector<Diagnostic>;

/// Each once, in the order of the file.
Diagnostics in_order(Diagnostics diagnostics);

}  // namespace dlflow
