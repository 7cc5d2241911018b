#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The task numbers of a job array, as batch systems write them.
namespace dlflow {

/// Formats 0 1 2 3 4 7 as "0-4,7"; `tasks` must be ascending. Empty if there are none.
std::string format_array_range(std::span<const uint32_t> tasks);

/// Parses "[0-4,7%50]", "0-10:2" or "[1-3,...]" (squeue truncates long lists) into at most
/// `at_most` tasks. Ignores what it cannot parse.
std::vector<uint32_t> parse_array_range(std::string_view text, size_t at_most);

}  // namespace dlflow
