#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/job.h"

/// RUN/batches/7-18.jsonl: what the calls 7 to 18 of a run hand over. It is on disk before
/// the first of them, so that after a kill everybody knows what was meant, and it is all that their
/// jobs read. One file for many calls: a shared file system is slow at files, and at syncing them.
/// Each line is [batch, task, attempt, job's name, JobSpec], in the order of the first two. A task
/// that several elements share has a line for each, in the order in which it runs them. Parents
/// that tasks have in common are there once, as batch 0: [0, list, 0, "", parents]; a JobSpec has
/// the number of the list in their place.
namespace dlflow {

/// An attempt that a task runs.
struct BatchTask {
  uint32_t batch = 0;  ///< number of the call in its run
  uint32_t task = 0;   ///< number in the array; 0 of a plain job
  int attempt = 1;
  JobSpec spec;
};

/// Which job of the run a task is.
struct BatchEntry {
  uint32_t batch = 0;
  uint32_t task = 0;
  int attempt = 1;
  std::string job;
};

/// A file's name says which calls it is for.
struct BatchRange {
  uint32_t first = 0;
  uint32_t last = 0;
  auto operator<=>(const BatchRange&) const = default;
};

std::filesystem::path batch_file(const std::filesystem::path& run_directory, BatchRange batches);

/// The lines of a batch file to be.
class BatchLines {
 public:
  /// `task` is not before any other in their order.
  void add(const BatchTask& task);

  std::string text() const { return lists_ + tasks_; }

 private:
  uint32_t list_of(const JobSpec& spec);

  std::string lists_;
  std::string tasks_;
  std::map<std::string, uint32_t> numbers_;  // of lists, by their text
  std::vector<ParentRef> last_;              // neighbours mostly have the same
  uint32_t last_number_ = 0;
};

/// Complete on disk when it returns, or not there. Throws Error{Unavailable} if somebody else has
/// made a file for one of its calls: two are at work on the run, whatever its lock says.
void write_batch_file(const std::filesystem::path& file, std::string_view lines);

/// The attempts of a task, at least one. Looks at some lines only, however many there are. Throws
/// Error: NotFound for a task that is not in it, Corrupt.
std::vector<BatchTask> attempts_of_task(const std::filesystem::path& file, uint32_t batch,
                                        uint32_t task);

/// Throws Error{Corrupt}.
std::vector<BatchEntry> read_batch_entries(const std::filesystem::path& file);

/// The files of a run, in the order they were made.
std::vector<BatchRange> batch_ranges(const std::filesystem::path& run_directory);

}  // namespace dlflow
