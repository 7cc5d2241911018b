#pragma once

#include <string_view>

/// Names of jobs as people type them.
namespace dlflow {

/// Whether `word` means the job called `job`: its name, with the axes in any order
/// ("train[width=64,lr=0.1]" for "train[lr=0.1,width=64]"), or the name of its step.
bool means_job(std::string_view word, std::string_view job);

}  // namespace dlflow
