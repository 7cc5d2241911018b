#include "engine/supervisor/energy.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using dlflow::test::TempDir;

namespace {

void zone(const std::filesystem::path& folder, const std::string& name, const std::string& energy) {
  make_directories(folder);
  write_file(folder / "name", name + "\n");
  if (!energy.empty()) write_file(folder / "energy_uj", energy + "\n");
  write_file(folder / "max_energy_range_uj", "262143328850\n");
}

}  // namespace

TEST_CASE("the energy of all packages is read, and of no part twice", "[energy]") {
  const TempDir folder;
  zone(folder.path() / "intel-rapl:0", "package-0", "1000000");
  zone(folder.path() / "intel-rapl:1", "package-1", "5000000");
  zone(folder.path() / "intel-rapl:0:0", "core", "900000");
  zone(folder.path() / "intel-rapl:2", "psys", "7");
  const EnergyCounters before = read_energy(folder.path());
  CHECK(before.size() == 2);
  zone(folder.path() / "intel-rapl:0", "package-0", "3500000");
  CHECK(joules_between(before, read_energy(folder.path())) == 2.5);
}

TEST_CASE("a counter that begins anew is taken to have done so once", "[energy]") {
  const EnergyCounters before = {{"package-0", {.microjoules = 9'000'000, .range = 10'000'000}}};
  const EnergyCounters after = {{"package-0", {.microjoules = 1'000'000, .range = 10'000'000}}};
  CHECK(joules_between(before, after) == 2.0);
}

TEST_CASE("where counters cannot be read there is no energy", "[energy]") {
  const TempDir folder;
  zone(folder.path() / "intel-rapl:0", "package-0", "");
  CHECK(read_energy(folder.path()).empty());
  CHECK(read_energy(folder.path() / "none").empty());
  CHECK_FALSE(joules_between({}, {}).has_value());
  CHECK_FALSE(joules_between({{"package-0", {}}}, {{"package-1", {}}}).has_value());
}
