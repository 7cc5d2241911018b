#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/options.h"

namespace dlflow::fake_slurm {
namespace {

std::string field(char letter, const Config& config, const Partition& partition) {
  switch (letter) {
    case 'R':
      return partition.name;
    case 'D':
      return std::to_string(config.nodes);
    case 'c':
      return std::to_string(config.cpus);
    case 'm':
      return std::to_string(kNodeMemory);
    case 'G':
      return "(null)";
    default:
      return "";
  }
}

}  // namespace

/// All nodes are identical, in all partitions, and in service.
int sinfo(Call& call) {
  const auto words = parse_words(call.argv(), {"noheader", "list-reasons", "format"}, call.err);
  if (!words) return 1;
  try {
    call.request();
    call.reply();
  } catch (const Unreachable& error) {
    call.err = "slurm_load_partitions: " + error.text + "\n";
    return 1;
  }
  if (words->has("list-reasons") || !words->has("format")) return 0;
  for (const Partition& partition : kPartitions) {
    call.out += fill(*words->find("format"),
                     [&](char letter) { return field(letter, call.world().config, partition); });
  }
  return 0;
}

}  // namespace dlflow::fake_slurm
