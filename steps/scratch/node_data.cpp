#include "steps/scratch/node_data.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "base/units.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/split_files.h"
#include "steps/environment/step_environment.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Returns the copy, or prints a warning and returns null.
std::unique_ptr<runtime::NodeCopy> copy_to_node(std::span<const runtime::CopySource> files) {
  const std::string node = host_name();
  try {
    const auto started = Clock::now();
    auto copy = std::make_unique<runtime::NodeCopy>(files, node_disk());
    const std::chrono::duration<double> time = Clock::now() - started;
    std::printf("%s: data %s %s (%s, %.1f s)\n", node.c_str(),
                copy->made() ? "copied to" : "found in", copy->folder().c_str(),
                format_size(total_bytes(files)).c_str(), time.count());
    std::fflush(stdout);
    return copy;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: %s reads the data in place, without a copy: %s\n", node.c_str(),
                 error.what());
    return nullptr;
  }
}

/// Collected from the first rank of each node.
struct Places {
  fs::path own;  ///< on this rank's node; empty: no copy
  int made = 0, found = 0, none = 0;
};

Places exchange_places(runtime::Communicator& comm, const runtime::NodeCopy* copy) {
  const Json mine = copy == nullptr
                        ? Json::object()
                        : Json{{"folder", copy->folder().string()}, {"made", copy->made()}};
  Places places;
  const std::span<const int> nodes = comm.nodes();
  int node = 0;
  for (int rank = 0; rank < comm.size(); ++rank) {
    if (nodes[size_t(rank)] != node) continue;  // not its node's first
    const Json theirs = Json::parse(runtime::broadcast_text(comm, mine.dump(), rank));
    const bool has_copy = theirs.contains("folder");
    ++(!has_copy ? places.none : theirs.at("made") ? places.made : places.found);
    if (has_copy && nodes[size_t(comm.rank())] == node) {
      places.own = theirs.at("folder").get<std::string>();
    }
    ++node;
  }
  return places;
}

std::string message(const Places& places, uint64_t bytes) {
  const int copies = places.made + places.found, nodes = copies + places.none;
  std::string text = format_size(bytes) + " of data on the disk of " + std::to_string(copies) +
                     " of " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes");
  if (places.found > 0) text += ", " + std::to_string(places.found) + " found there";
  return text;
}

}  // namespace

runtime::NodeDisk node_disk() {
  runtime::NodeDisk disk;
  for (const char* name : {"DLFLOW_SCRATCH", "TMPDIR"}) {
    if (disk.scratch.empty()) disk.scratch = environment_variable(name);
  }
  if (disk.scratch.empty()) disk.scratch = "/tmp";
  const std::string budget = environment_variable("DLFLOW_SCRATCH_BUDGET");
  if (!budget.empty()) disk.budget_bytes = parse_size(budget);
  return disk;
}

NodeData::NodeData(runtime::Communicator& comm, fs::path data, runtime::Split split,
                   const fs::path& metrics)
    : folder_(std::move(data)) {
  const runtime::Activity activity(comm, "copies the data to its node's disk");
  uint64_t bytes = 0;
  if (comm.node_rank() == 0) {
    const auto files =
        runtime::copy_sources(runtime::files_of(runtime::splits_to_read(folder_, split)));
    bytes = total_bytes(files);
    copy_ = copy_to_node(files);
  }
  const Places places = exchange_places(comm, copy_.get());
  if (!places.own.empty()) folder_ = places.own;
  if (comm.rank() == 0)
    AppendFile(metrics).append(Json{{"message", message(places, bytes)}}.dump());
}

}  // namespace dlflow::steps
