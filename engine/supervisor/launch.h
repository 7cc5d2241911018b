#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/process.h"
#include "base/secret_file.h"
#include "engine/plan/job.h"
#include "engine/ranks/rank_plan.h"

/// The command of a job, with its environment and files.
namespace dlflow {

/// The shells for which a step's script may be written.
inline constexpr const char* kBash = "/bin/bash";
inline constexpr const char* kSh = "/bin/sh";

/// The shell for lines that people write: bash if there is one, for `module load` and `source`.
std::string host_shell();

/// An attempt's files, by the names of docs/contributor/reference.md.
struct AttemptFiles {
  std::filesystem::path attempt;  ///< RUN/steps/STEP[/ELEMENT]/attempt-N
  int number = 1;
  int pass = 1;

  /// The folder of files that only this pass writes: a pass that was given up may still write to
  /// its own.
  std::filesystem::path own() const { return attempt / ("pass-" + std::to_string(pass)); }
  std::filesystem::path work() const { return own() / "work"; }
  std::filesystem::path outputs() const { return own() / "outputs"; }
  std::filesystem::path outputs_file() const { return outputs() / "outputs.json"; }
  std::filesystem::path with() const { return attempt / "with.json"; }
  std::filesystem::path script() const { return attempt / "run.sh"; }
  std::filesystem::path container() const { return attempt / "container.json"; }
  std::filesystem::path ranks() const {
    return attempt / ("ranks-" + std::to_string(pass) + ".json");
  }
  std::filesystem::path lost_rank() const {
    return attempt / ("lost-rank-" + std::to_string(pass));
  }
  std::filesystem::path standard_output() const { return attempt / "stdout"; }
  std::filesystem::path standard_error() const { return attempt / "stderr"; }
  std::filesystem::path metrics() const { return attempt / "metrics.jsonl"; }
  /// The file for metrics of a program with secrets: metrics() gets what it writes without them.
  std::filesystem::path given_metrics() const { return own() / "metrics-as-given.jsonl"; }
  std::filesystem::path summary() const { return own() / "metrics.json"; }
  std::filesystem::path events() const { return attempt / "events.jsonl"; }
  /// Exists once `dlflow cancel` has asked this attempt to save and to end (SLURM): a pass after
  /// the one that got the request does not begin.
  std::filesystem::path cancel_request() const { return attempt / "cancel"; }
};

/// A job's values once everything that they depend on is known.
struct ResolvedJob {
  Json run_command;  ///< a string, a list of argv, or null for `uses`
  Json with = Json::object();
  Json environment = Json::object();
  RankPlan ranks;  ///< of a command
};

/// The ranks of a command on the nodes that this process's environment names, with an address and a
/// free port for them to meet at.
/// \param environment  ResolvedJob::environment. Throws Error.
RankPlan plan_ranks(const JobSpec& spec, const Json& environment);

/// Whether a request to save goes to the job's program by RankPlan::asked_by, and a launcher,
/// container-run or a program of dlflow forwards it; otherwise the supervisor signals each process.
bool has_relay(const JobSpec& spec, const RankPlan& ranks);

/// Makes the folders and files for the program: work/ with copies of the declared inputs (links to
/// large ones, see copied_inputs()), outputs/, with.json, the script of a textual `run:`, the link
/// to the folder of checkpoints of `checkpoint: {newer: …}`. If the pass before saved and asked to
/// run again, its folders are taken over unchanged.
void prepare_files(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files);

/// Whether `place` below the working directory `work` is the unchanged copy of an input.
bool is_untouched_input(const JobSpec& spec, const std::filesystem::path& work,
                        const std::filesystem::path& place);

/// The variables that the plan and the node give to the job, see inherited.h; all variables of this
/// process if an older dlflow made the run.
std::map<std::string, std::string> caller_variables(const JobSpec& spec);

/// The caller's `variables` that the job gets. For a program of dlflow, settings of arithmetic are
/// left out.
std::map<std::string, std::string> passed_on(std::map<std::string, std::string> variables,
                                             const JobSpec& spec);

/// The job's own part of its environment: the DLFLOW_* variables of docs/contributor/reference.md,
/// and `env:` on top.
std::map<std::string, std::string> declared_environment(const JobSpec& spec, const ResolvedJob& job,
                                                        const AttemptFiles& files);

/// The job's launcher with the settings for the job's nodes.
std::vector<std::string> rank_launcher(const JobSpec& spec, const RankPlan& ranks);

/// Whether srun starts several ranks of the job.
bool is_by_srun(const JobSpec& spec);

/// The command of one rank, without a launcher. A script is for the shell `shell`, bash or sh.
std::vector<std::string> rank_program(const JobSpec& spec, const ResolvedJob& job,
                                      const AttemptFiles& files, const std::string& shell);

/// The arguments of a `run:` list: a list among its words stands for as many of them. Throws
/// Error{InvalidInput} if there is none.
std::vector<std::string> arguments_of(const Json& words);

/// The program of the job with its launcher and setup lines, and its environment: the variables of
/// docs/contributor/reference.md, `env:` on top, and of the caller only caller_variables(). Throws
/// Error{InvalidInput}, with advice for long lists, if that exceeds the limits of a program.
/// \param gpus     CUDA_VISIBLE_DEVICES; nothing: the caller's.
/// \param secrets  of the job; a program in a container gets them there (container.h).
Command make_command(const JobSpec& spec, const ResolvedJob& job, const AttemptFiles& files,
                     const std::optional<std::string>& gpus, const Secrets& secrets);

/// The folder for checkpoints, which survives attempts.
std::filesystem::path checkpoints_directory(const JobSpec& spec);

}  // namespace dlflow
