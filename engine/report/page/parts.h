#pragma once

#include <string_view>

namespace dlflow {

/// The files of this folder, put into the program by CMake, and the library that draws curves.
struct PageParts {
  std::string_view body;
  std::string_view style;
  std::string_view script;
  std::string_view chart_library;  ///< Chart.js; empty: this program was built without it
  std::string_view chart_licence;
};

PageParts page_parts();

}  // namespace dlflow
