#pragma once

#include <string>
#include <vector>

#include "tests/support/fake_slurm/call.h"

namespace dlflow::fake_slurm {

/// scontrol show ENTITY [ID]: job, config, partition, node; the exit status.
int show(Call& call, const std::vector<std::string>& words, bool one_line);

}  // namespace dlflow::fake_slurm
