#pragma once

#include <cstdint>
#include <filesystem>

namespace dlflow {

/// On the node of a job that has ended well: if the job has listed what others run once for each
/// of, submits these, as far as the profile lets nodes do that. What is wrong is printed to
/// standard error, the log of the job, and `dlflow status` says what to type: the job itself has
/// done well.
void submit_what_was_listed(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task);

/// On the node of a job after its pass: tells what has ended with it, the run perhaps, to those
/// whom `notify:` names; see engine/run/notify.h. Takes up to kTellLimit. What cannot be told is
/// printed to standard error, the log of the job, and changes nothing.
void tell_what_ended(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task);

}  // namespace dlflow
