#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/job.h"

/// RUN/batches/7-18.jsonl: the intents of the calls 7 to 18 of a run. It is on disk before the
/// first call, so that they are known after a kill, and its jobs read nothing else. One file for
/// many calls, since a shared file system is slow at making and syncing files. Each line is [batch,
/// task, attempt, job's name, JobSpec], in the order of the first two. A task that several elements
/// share has a line for each, in the order in which it runs them. Parents that tasks have in common
/// are stored once, as batch 0: [0, list, 0, "", parents]; a JobSpec has the number of the list
/// instead.
namespace dlflow {

/// An attempt that a task runs.
struct BatchTask {
  uint32_t batch = 0;  ///< number of the call in its run
  uint32_t task = 0;   ///< number in the array; 0 of a plain job
  int attempt = 1;
  JobSpec spec;
};

/// The job of the run that a task runs.
struct BatchEntry {
  uint32_t batch = 0;
  uint32_t task = 0;
  int attempt = 1;
  JobName job;
};

/// The calls of a batch file, by its name.
struct BatchRange {
  uint32_t first = 0;
  uint32_t last = 0;
  auto operator<=>(const BatchRange&) const = default;
};

std::filesystem::path batch_file(const std::filesystem::path& run_directory, BatchRange batches);

/// The lines of a new batch file.
class BatchLines {
 public:
  /// Adds a task; tasks come in their order.
  void add(const BatchTask& task);

  std::string text() const { return lists_ + tasks_; }

 private:
  uint32_t list_of(const JobSpec& spec);

  std::string lists_;
  std::string tasks_;
  std::map<std::string, uint32_t> numbers_;  // of lists, by their text
  std::vector<ParentRef> last_;              // adjacent tasks mostly have the same
  uint32_t last_number_ = 0;
};

/// Writes the file completely, or not at all. Throws Error{Unavailable} if another process has made
/// a file for one of its calls: then two work on the run, in spite of its lock.
void write_batch_file(const std::filesystem::path& file, std::string_view lines);

/// The attempts of a task, at least one. Reads only a few lines, whatever the size of the file.
/// Throws Error: NotFound for a task that is not in it, Corrupt.
std::vector<BatchTask> attempts_of_task(const std::filesystem::path& file, uint32_t batch,
                                        uint32_t task);

/// Throws Error{Corrupt}.
std::vector<BatchEntry> read_batch_entries(const std::filesystem::path& file);

/// The files of a run, in the order of their creation.
std::vector<BatchRange> batch_ranges(const std::filesystem::path& run_directory);

}  // namespace dlflow
