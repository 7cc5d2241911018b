#pragma once

#include <string>

#include "tests/support/fake_slurm/world.h"

namespace dlflow::fake_slurm {

/// Applies `KEY=VALUE` of `fake-slurm set`. Throws Error{InvalidInput} for an unknown key.
void configure(World& world, const std::string& setting);

}  // namespace dlflow::fake_slurm
