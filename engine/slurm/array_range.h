#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The task numbers of a job array as SLURM writes them.
namespace dlflow {

/// "0-4,7" for 0 1 2 3 4 7; `tasks` are ascending. Empty for none.
std::string format_array_range(std::span<const uint32_t> tasks);

/// The tasks in "[0-4,7%50]", "0-10:2" or "[1-3,...]" (squeue cuts long lists), at most `at_most`
/// of them. What cannot be read is left out.
std::vector<uint32_t> parse_array_range(std::string_view text, size_t at_most);

}  // namespace dlflow
