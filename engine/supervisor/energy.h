#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

/// The energy that a machine's processors used, as they count it themselves (RAPL).
namespace dlflow {

struct EnergyCounter {
  uint64_t microjoules = 0;  ///< since some time
  uint64_t range = 0;        ///< where it begins at 0 again
  bool operator==(const EnergyCounter&) const = default;
};

/// By processor package; empty where the kernel does not let us read them, as is usual for others
/// than root (CVE-2020-8694).
using EnergyCounters = std::map<std::string, EnergyCounter>;

EnergyCounters read_energy(const std::filesystem::path& powercap = "/sys/class/powercap");

/// Of all packages, whoever used them. Nothing if a package was not read both times. A counter that
/// wrapped is taken to have done so once: it takes an hour at 70 W, and a pass in which a package
/// wraps twice is told too little.
std::optional<double> joules_between(const EnergyCounters& before, const EnergyCounters& after);

}  // namespace dlflow
