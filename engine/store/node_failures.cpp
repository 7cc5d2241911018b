#include "engine/plan/run_directory.h"
#include "engine/store/database.h"
#include "engine/store/store.h"

namespace dlflow {

/// Reads the cluster's name from the run's folder; without it, a node's name is ambiguous.
void Store::note_node_failure(int64_t run, const JobEvent& event) {
  const Rows rows = database_.query("SELECT name, directory FROM runs WHERE id = ?", run);
  if (!rows->next()) return;
  const auto cluster = cluster_of(rows->text(1));
  if (!cluster) return;
  database_.execute(
      "INSERT OR IGNORE INTO node_failures(cluster, node, run, job, at_ms) VALUES(?, ?, ?, ?, ?)",
      *cluster, event.failed_node, rows->text(0), event.job, to_ms(event.at));
}

std::vector<NodeFailure> Store::node_failures() {
  std::vector<NodeFailure> failures;
  const Rows rows = database_.query(
      "SELECT cluster, node, run, job, at_ms FROM node_failures f WHERE NOT EXISTS "
      "(SELECT 1 FROM forgiven_nodes g WHERE g.cluster = f.cluster AND g.node = f.node AND "
      "g.at_ms >= f.at_ms) ORDER BY cluster, node, at_ms");
  while (rows->next()) {
    failures.push_back({.cluster = rows->text(0),
                        .node = rows->text(1),
                        .run = rows->text(2),
                        .job = JobName(rows->text(3)),
                        .at = from_ms(rows->integer(4))});
  }
  return failures;
}

bool Store::forgive_node(const std::string& cluster, const std::string& node, Time at) {
  bool any = false;
  for (const NodeFailure& failure : node_failures()) {
    any |= failure.cluster == cluster && failure.node == node && failure.at <= at;
  }
  database_.execute(
      "INSERT INTO forgiven_nodes(cluster, node, at_ms) VALUES(?, ?, ?) "
      "ON CONFLICT(cluster, node) DO UPDATE SET at_ms = excluded.at_ms",
      cluster, node, to_ms(at));
  return any;
}

}  // namespace dlflow
