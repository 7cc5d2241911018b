#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/job.h"

/// RUN/batches/NAME.jsonl: what one sbatch hands over. It is on disk before sbatch is called, so
/// that after a kill everybody knows what was meant, and it is all that its jobs read: one file,
/// however many tasks the array has. Each line is [task, attempt, job's name, JobSpec].
namespace dlflow {

struct BatchTask {
  uint32_t task = 0;  ///< number in the array; 0 of a plain job
  int attempt = 1;
  JobSpec spec;
};

/// Which job of the run a task is.
struct BatchEntry {
  uint32_t task = 0;
  int attempt = 1;
  std::string job;
};

std::filesystem::path batch_file(const std::filesystem::path& run_directory,
                                 const std::string& name);

/// Complete on disk when it returns, or not there.
void write_batch_file(const std::filesystem::path& file, std::span<const BatchTask> tasks);

/// Throws Error: NotFound for a task that is not in it, Corrupt.
BatchTask read_batch_task(const std::filesystem::path& file, uint32_t task);

/// Throws Error{Corrupt}.
std::vector<BatchEntry> read_batch_entries(const std::filesystem::path& file);

/// The names of the batches of a run, in the order they were made.
std::vector<std::string> batch_names(const std::filesystem::path& run_directory);

}  // namespace dlflow
