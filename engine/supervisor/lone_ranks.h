#pragma once

#include <string>
#include <string_view>

namespace dlflow {

/// A warning if each of the `ranks` of a step printed that it trains alone, as frameworks do that
/// did not find the other ranks; empty otherwise.
std::string warning_of_lone_ranks(std::string_view output, int ranks);

}  // namespace dlflow
