#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/support/temp_dir.h"

namespace dlflow::test {

/// A cluster for one test: a folder whose sbatch, squeue, … act on their own world.
/// tests/support/fake_slurm/README.md documents `control`.
class FakeSlurmTools {
 public:
  struct Result {
    int status = 0;
    std::string out, err;
  };

  FakeSlurmTools() = default;
  FakeSlurmTools(const FakeSlurmTools&) = delete;
  FakeSlurmTools& operator=(const FakeSlurmTools&) = delete;
  ~FakeSlurmTools() {
    try {
      if (background_) run("fake-slurm stop");
    } catch (const std::exception&) {  // the test has already passed or failed
    }
  }

  /// Must come first in PATH, with environment() set.
  static std::filesystem::path tools() { return FAKE_SLURM_TOOLS; }

  /// This process's environment plus the world's folder, with the tools first in PATH.
  std::vector<std::string> environment() const {
    std::vector<std::string> all = {"FAKE_SLURM=" + world().string()};
    for (const std::string& entry : current_environment()) {
      if (entry.starts_with("FAKE_SLURM=") || entry.starts_with("SLURM_")) continue;
      const bool path = entry.starts_with("PATH=");
      all.push_back(path ? "PATH=" + tools().string() + ":" + entry.substr(5) : entry);
    }
    return all;
  }

  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path world() const { return folder() / "world"; }
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    return folder_.write(name, content);
  }

  /// Runs a shell command line in folder().
  Result run(const std::string& line, const std::string& input = "") const {
    Command command;
    command.argv = {"/bin/sh", "-c", line};
    command.environment = environment();
    command.directory = folder();
    command.standard_error = folder() / "stderr";
    std::filesystem::remove(command.standard_error);
    const Output output = dlflow::run(command, input);
    return {output.status.code, output.text, read_file(folder() / "stderr")};
  }

  /// `fake-slurm LINE`. Throws Error if it fails.
  std::string control(const std::string& line) const {
    background_ = background_ || line == "mode background";
    const Result result = run("fake-slurm " + line);
    if (result.status != 0) throw Error(Errc::InvalidInput, result.err);
    return result.out;
  }

  /// Submits an empty script with `options` and returns its id. Throws Error if it is refused.
  std::string submit(const std::string& options = "") const {
    const Result result = run("sbatch " + options, "#!/bin/sh\n");
    if (result.status != 0) throw Error(Errc::InvalidInput, result.err);
    return std::string(trim(result.out));
  }

  /// The fields of a job or task as squeue prints them: field(id, "%T %r").
  std::string field(const std::string& id, const std::string& format) const {
    const Result result = run("squeue --states=all '--format=%i " + format + "'");
    for (const std::string& line : split(result.out, '\n')) {
      if (line.starts_with(id + " ")) return line.substr(id.size() + 1);
    }
    return "";
  }

  /// The actual state: [{id, request, tasks: [{index, state, reason, …}]}].
  Json jobs() const { return Json::parse(control("jobs")); }

  /// The argv of each call of `command` so far, without its name.
  std::vector<std::vector<std::string>> calls(const std::string& command) const {
    std::vector<std::vector<std::string>> list;
    for (const std::string& line :
         split(read_file_if_exists(world() / "calls.jsonl").value_or(""), '\n')) {
      if (line.empty()) continue;
      const Json call = Json::parse(line);
      if (call.at("command") == command) list.push_back(call.at("argv"));
    }
    return list;
  }

 private:
  TempDir folder_;
  mutable bool background_ = false;
};

}  // namespace dlflow::test
