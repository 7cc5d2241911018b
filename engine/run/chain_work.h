#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/plan/plan.h"
#include "engine/run/chain.h"
#include "engine/run/chain_record.h"
#include "engine/run/jobs.h"
#include "engine/slurm/batch_file.h"
#include "engine/slurm/batches.h"
#include "engine/slurm/observe.h"
#include "engine/slurm/script.h"

namespace dlflow {

/// The jobs that SLURM is asked about.
struct ChainQuestion {
  std::vector<OpenJob> open;
  std::vector<std::string> ended;  ///< ids of others, for sacct
  Time since{};                    ///< before the first was submitted

  bool is_empty() const { return open.empty() && ended.empty(); }

  /// Also what `other` asks.
  void add(ChainQuestion other);
};

/// What SLURM said, of these jobs and of others.
struct ChainAnswer {
  std::vector<SlurmJob> queue;
  Accounting accounting;
  std::set<std::string> gone;  ///< ids of jobs that have vanished
  std::string problem;         ///< nothing is known, and why; else empty
};

/// Of a job that accounting alone takes for running it is doubtful how it ended.
enum class Doubt { Leave, GiveUp };

/// One squeue, and at most one sacct; none of them if there is nothing to ask. Then one scontrol
/// for each job or array that neither knows: it is lost only if the controller itself says so.
/// Throws as SlurmTools.
ChainAnswer ask(SlurmTools& tools, const ChainQuestion& question, Doubt doubt);

/// sbatch refuses a batch of so many jobs: of a limit on submitted jobs, which are fewer later.
class TooManyJobs : public Error {
 public:
  TooManyJobs(const std::string& message, size_t batch)
      : Error(Errc::Unavailable, message), jobs(batch) {}
  size_t jobs;
};

/// One call of chain.h at work. For whoever holds RunLock.
class Chain {
 public:
  Chain(const std::filesystem::path& run_directory, const ChainServices& services);

  ChainResult submit(const PlanAgain& again);
  CancelResult cancel(const std::vector<std::string>& names);

  /// For refresh_chains, which asks SLURM for several runs at once: what to ask about, and what to
  /// make of the answer.
  ChainQuestion question(AskAbout what) const;
  ChainView refresh(const ChainAnswer& answer);

 private:
  std::vector<OpenJob> open_jobs() const;
  std::map<std::string, SlurmJob> look(Doubt doubt);
  std::map<std::string, SlurmJob> take(const ChainAnswer& answer);
  void believe(std::map<std::string, SlurmJob>& at_work);
  void unblock(const std::map<std::string, SlurmJob>& at_work);
  bool has_moved_on(uint32_t job);
  std::optional<uint32_t> broken_parent(uint32_t job) const;
  bool block_if_hopeless(uint32_t job);
  void block_descendants();
  enum class Asked { Now, Before, Refused };
  Asked ask_to_save(uint32_t job, std::string& refusal);
  size_t take_from_slurm(std::vector<uint32_t>& waiting, std::vector<uint32_t>& running,
                         std::string& refusal);

  void adopt(ChainResult& result);
  void adopt(const BatchEntry& entry, const std::string& id, ChainResult& result);

  void reuse();
  std::vector<Standing> standing() const;
  std::vector<Standing> standing_within_limit(ChainResult& result);
  void submit_what_is_missing(ChainResult& result);
  void submit(const std::vector<PlannedBatch>& round, ChainResult& result);
  BatchRange write_intents(const std::vector<PlannedBatch>& round);
  Batch describe(const PlannedBatch& planned, uint32_t number, BatchRange round,
                 const std::vector<std::string>& ids) const;
  std::string id_of(const PlannedBatch& planned, uint32_t number, const SbatchAnswer& answer);
  void take_id(const PlannedBatch& planned, const std::string& id, ChainResult& result);
  std::string batch_name(uint32_t number, uint32_t step) const;
  std::string progress() const;
  std::string limit_advice() const;

  bool repoint(ChainResult& result);
  bool repoint_tasks(const std::string& array, const std::vector<uint32_t>& jobs,
                     const std::string& dependency, ChainResult& result);
  bool repoint_one(uint32_t job, const std::string& dependency, ChainResult& result);
  std::optional<std::string> new_dependency(uint32_t job) const;

  const ChainServices& services_;
  Plan plan_;
  RunStatus status_;
  Jobs jobs_;
  ChainRecord record_;
  std::unordered_map<std::string_view, uint32_t> number_of_;  // by job's name
  std::vector<std::string> ids_;  // by job: SLURM's, of its latest attempt; empty: none
  std::set<uint32_t> stuck_;      // wait in SLURM for what will not succeed
  bool looked_up_ = false;        // what is still Submitting is not in SLURM
};

}  // namespace dlflow
