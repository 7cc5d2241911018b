#pragma once

#include <cstdint>
#include <filesystem>

namespace dlflow {

/// On the node of a job that has ended well: if the job has listed what others run once for each
/// of, submits these, as far as the profile lets nodes do that. What is wrong is printed to
/// standard error, the log of the job, and `dlflow status` says what to type: the job itself has
/// done well.
void submit_what_was_listed(const std::filesystem::path& batch_file, uint32_t batch, uint32_t task);

}  // namespace dlflow
