#include "engine/ranks/lost_rank.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/ranks/rank_variables.h"

namespace dlflow {

void record_lost_rank(const RankPlan& plan, int signal) {
  if (plan.lost_rank.empty()) return;
  const FileDescriptor file(
      ::open(plan.lost_rank.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return;  // another rank was first
  const auto variables = rank_variables(plan);
  const auto rank = variables.find("DLFLOW_RANK");
  const std::string node = "node " + host_name();
  const std::string who =
      rank == variables.end() ? node : "rank " + rank->second + " (" + node + ")";
  try {
    write_all(
        file.get(),
        who + ": killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")\n",
        plan.lost_rank);
  } catch (const Error&) {  // a full disk: the exit status must suffice
  }
}

std::optional<std::string> read_lost_rank(const std::filesystem::path& file) {
  const std::string text = escaped(trim(read_file_if_exists(file).value_or("")));
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace dlflow
