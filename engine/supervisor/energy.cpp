#include "engine/supervisor/energy.h"

#include <cstdlib>
#include <fstream>

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The first word of a file; empty if it cannot be read.
std::string word_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string word;
  stream >> word;
  return word;
}

}  // namespace

EnergyCounters read_energy(const fs::path& powercap) {
  EnergyCounters counters;
  std::error_code none;
  for (const auto& zone : fs::directory_iterator(powercap, none)) {
    const std::string name = word_in(zone.path() / "name");
    if (!name.starts_with("package-")) continue;  // parts of packages are in them
    const std::string energy = word_in(zone.path() / "energy_uj");
    if (energy.empty()) continue;
    counters[name] = {
        .microjoules = std::strtoull(energy.c_str(), nullptr, 10),
        .range = std::strtoull(word_in(zone.path() / "max_energy_range_uj").c_str(), nullptr, 10)};
  }
  return counters;
}

std::optional<double> joules_between(const EnergyCounters& before, const EnergyCounters& after) {
  if (before.empty() || before.size() != after.size()) return std::nullopt;
  double joules = 0;
  for (const auto& [package, then] : before) {
    const auto now = after.find(package);
    if (now == after.end()) return std::nullopt;
    const uint64_t end = now->second.microjoules;
    const uint64_t used =
        end >= then.microjoules ? end - then.microjoules : end + then.range - then.microjoules;
    joules += double(used) / 1e6;
  }
  return joules;
}

}  // namespace dlflow
