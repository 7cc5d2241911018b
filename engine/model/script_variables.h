#pragma once

#include <set>
#include <string>
#include <string_view>

namespace dlflow {

/// The variables that a shell script reads, by $NAME or ${NAME…}, except those that it sets itself
/// or that the shell sets (PWD, RANDOM). Ignores quoting, and so is fit for warnings only.
std::set<std::string> variables_read(std::string_view script);

}  // namespace dlflow
