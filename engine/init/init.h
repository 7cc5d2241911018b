#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// First workflows, for `dlflow init`: one kind of source per file, and one table of them.
namespace dlflow {

struct InitRequest {
  std::filesystem::path source;
  std::filesystem::path workflow;  ///< the file to write
  std::string name;                ///< of the workflow
  std::string data;                ///< file or folder that a script reads; may be empty
  std::string target;              ///< column of a table to learn; may be empty
  std::string walltime;            ///< empty: that of the source, or an hour
  /// Asks at the terminal; empty where there is none.
  std::function<std::string(const std::string& question)> ask = {};

  std::string walltime_or_hour() const { return walltime.empty() ? "1h" : walltime; }
};

struct InitFile {
  std::filesystem::path path;
  std::string content;
};

/// The examples, a line each.
std::string init_examples();

/// Makes the files of the first kind that fits `request.source`. Throws Error{InvalidInput}, with
/// the commands to type, for sources that get no workflow.
std::vector<InitFile> init_files(const InitRequest& request);

// The kinds. Each has a file of its own.
std::vector<InitFile> init_batch_script(const InitRequest& request);
std::vector<InitFile> init_script(const InitRequest& request);
std::vector<InitFile> init_table(const InitRequest& request);
std::vector<InitFile> init_pictures(const InitRequest& request);
std::vector<InitFile> init_data_set(const InitRequest& request);

}  // namespace dlflow
