#include "steps/train/cluster_rules.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/units.h"
#include "runtime/collectives/rules.h"
#include "runtime/collectives/topology.h"
#include "runtime/collectives/tune.h"
#include "runtime/comm/communicator.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

constexpr double kSecondsEach = 0.2;

/// Prints the fastest algorithm first, then all others.
void print_line(const runtime::TuneLine& line) {
  const auto microseconds = [](const auto& time) { return time.seconds * 1e6; };
  const auto& best = line.times[line.fastest];
  std::string others;
  for (const auto& time : line.times) {
    if (&time == &best) continue;
    others += fmt::format("  {} {:.0f}", time.way, microseconds(time));
  }
  std::printf("%9s  %s %.0f us%s%s\n", format_size(line.bytes).c_str(), best.way.c_str(),
              microseconds(best), others.empty() ? "" : "; others", others.c_str());
  std::fflush(stdout);
}

}  // namespace

std::filesystem::path cluster_rules_path() {
  const std::string path = environment_variable("DLFLOW_COLLECTIVES");
  if (!path.empty()) return path;
  const std::string cache = environment_variable("DLFLOW_CACHE");
  return cache.empty() ? std::filesystem::path() : std::filesystem::path(cache) / "collectives.txt";
}

runtime::RuleSet cluster_rules(runtime::Communicator& comm) {
  const std::filesystem::path path = cluster_rules_path();
  std::string text;
  if (comm.rank() == 0 && !path.empty()) text = read_file_if_exists(path).value_or("");
  return runtime::rules_for_shape(runtime::broadcast_text(comm, text),
                                  runtime::topology_of(comm).text(), path);
}

int tune_cluster(runtime::Communicator& comm, size_t largest_bytes) {
  const bool prints = comm.rank() == 0;
  const std::string shape = runtime::topology_of(comm).text();
  if (prints)
    std::printf("%s ranks, microseconds (lower quartile) of a sum of fp32\n", shape.c_str());
  const runtime::RuleSet rules =
      runtime::tune(comm, largest_bytes, kSecondsEach, [&](const runtime::TuneLine& line) {
        if (prints) print_line(line);
      });
  if (!prints) return 0;
  std::printf("\n%s %s\n", shape.c_str(), to_text(rules).c_str());
  const std::filesystem::path path = cluster_rules_path();
  if (path.empty()) {
    std::printf("not stored: neither $DLFLOW_COLLECTIVES nor $DLFLOW_CACHE is set\n");
    return 0;
  }
  const std::string today = to_rfc3339(SystemClock().now()).substr(0, sizeof("2026-11-23") - 1);
  runtime::store_rules(path, shape, rules, today);
  std::printf("stored in %s\n", path.c_str());
  return 0;
}

}  // namespace dlflow::steps
