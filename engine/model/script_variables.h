#pragma once

#include <set>
#include <string>
#include <string_view>

namespace dlflow {

/// The variables that a shell script reads, by $NAME or ${NAME…}, and neither sets itself nor has
/// from the shell (PWD, RANDOM). For a warning, not for a decision: quotes are not understood.
std::set<std::string> variables_read(std::string_view script);

}  // namespace dlflow
