#pragma once

#include <span>
#include <string>

#include "engine/plan/explain.h"
#include "engine/report/style.h"

namespace dlflow {

/// `dlflow explain`: a line per job, "best  runs  its input checkpoints come from train". Elements
/// of a step with the same answer share a line.
std::string explain_table(std::span<const Explanation> explanations, const Style& style);

}  // namespace dlflow
