#pragma once

#include <cstdint>
#include <filesystem>

namespace dlflow {

/// Runs on the node of a job that has succeeded: if the job has left a list for the axis of another
/// step, submits the jobs that the list makes, as far as the profile lets nodes submit. A problem
/// is printed to standard error, which is the job's log, and `dlflow status` shows the command to
/// type: the job itself has succeeded.
void submit_what_was_listed(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task);

/// Runs on the node of a job after its pass: tells the recipients of `notify:` that the job has
/// ended, or the run with it; see engine/run/notify.h. Takes up to kTellLimit. A problem is printed
/// to standard error, which is the job's log, and changes nothing.
void tell_what_ended(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task);

}  // namespace dlflow
