#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

/// First workflows, for `dlflow init`: kinds of sources, and parts of the text of a workflow.
namespace dlflow {

struct InitRequest {
  std::filesystem::path source;
  std::filesystem::path workflow;  ///< the file to write
  std::string name;                ///< of the workflow
  std::string data;                ///< file or folder that a script reads; may be empty
  std::string target;              ///< column of a table to learn; may be empty
  std::string walltime;            ///< if empty, the walltime of the source, or an hour
  /// Asks at the terminal; empty without a terminal.
  std::function<std::string(const std::string& question)> ask = {};

  std::string walltime_or_hour() const { return walltime.empty() ? "1h" : walltime; }
};

struct InitFile {
  std::filesystem::path path;
  std::string content;
  std::string note = {};  ///< what was chosen, for the terminal
};

/// One line for each kind: an example and its meaning.
std::string init_examples();

/// Makes the files of the first kind that fits `request.source`, the workflow first. Throws
/// Error{InvalidInput}, with the commands to type, for sources that get no workflow.
std::vector<InitFile> init_files(const InitRequest& request);

// The kinds.
std::vector<InitFile> init_batch_script(const InitRequest& request);
std::vector<InitFile> init_script(const InitRequest& request);
std::vector<InitFile> init_table(const InitRequest& request);
std::vector<InitFile> init_pictures(const InitRequest& request);
std::vector<InitFile> init_data_set(const InitRequest& request);

/// A line of YAML whose first @ stands for the value. It is left out if it has a @ and no value, or
/// is not wanted.
struct YamlLine {
  std::string line, value = "";
  bool is_wanted = true;
};

std::string yaml_lines(const std::vector<YamlLine>& lines);

/// "nodes: 2, ranks_per_node: 4": keys with their values, as far as they are wanted and not empty.
std::string yaml_pairs(const std::vector<YamlLine>& pairs);

/// The first line of a workflow, with its name.
inline constexpr const char* kHead =
    "# Written by `dlflow init`. `dlflow schema` and docs/user/workflow-format.md have every key.\n"
    "name: @";

/// "    inputs:" and one line for each input, without the last line break; empty without inputs.
std::string yaml_inputs(const std::vector<std::string>& inputs);

std::string yaml_quote(const std::string& text);

/// Adds quotes unless `word` is a plain name.
std::string yaml_word(const std::string& word);

/// "my train" -> "my-train": a name for a workflow or a step. A word that YAML does not read as
/// text gets a prefix.
std::string as_name(const std::string& text);

/// Returns `path` relative to the folder of the workflow `file` if it lies below, else absolute.
std::string named_by_workflow(const std::filesystem::path& path, const std::filesystem::path& file);

/// The different matches of a regular expression in `text`, in their order.
std::vector<std::string> matches(const std::string& text, const char* pattern);

}  // namespace dlflow
