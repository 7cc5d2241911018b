#pragma once

#include <string_view>

namespace dlflow {

/// The files of this folder and the chart library, embedded by CMake.
struct PageParts {
  std::string_view body;
  std::string_view style;
  std::string_view script;
  std::string_view chart_library;  ///< Chart.js; empty if the build did not find it
  std::string_view chart_licence;
};

PageParts page_parts();

}  // namespace dlflow
