#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dlflow {

/// A file or a package (a folder) that lies beside a Python script and that the script reads.
struct PythonModule {
  std::filesystem::path path;  ///< relative to the script's folder
  std::string reader;          ///< file name of who reads it
  bool operator==(const PythonModule&) const = default;
};

/// What the script imports from its own folder, and the Python files there that it names in quotes
/// (`exec(open('settings.py').read())`); also what these read. In the order of their paths. A
/// heuristic on lines of text: nothing is run.
std::vector<PythonModule> python_modules(const std::filesystem::path& script);

}  // namespace dlflow
