#include "engine/cli/lost_nodes.h"

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "engine/report/json.h"
#include "engine/report/style.h"
#include "engine/run/failing_nodes.h"

namespace dlflow {
namespace {

Json to_json(const FailingNode& node) {
  return {
      {"cluster", node.cluster},
      {"node", node.node},
      {"failures", node.failures},
      {"last", {{"at", to_rfc3339(node.last.at)}, {"run", node.last.run}, {"job", node.last.job}}}};
}

}  // namespace

void show_lost_nodes(Session& session) {
  const std::vector<FailingNode> nodes = failing_nodes(session.store());
  if (session.json) {
    Json list = Json::array();
    for (const FailingNode& node : nodes) list.push_back(to_json(node));
    return print_json(list);
  }
  if (nodes.empty()) {
    if (!session.quiet) std::printf("No job was lost on a node.\n");
    return;
  }
  size_t width = 4;
  for (const FailingNode& node : nodes) width = std::max(width, node.node.size());
  if (!session.quiet) std::printf("%s  CLUSTER  FAILURES  LAST\n", pad("NODE", width).c_str());
  for (const FailingNode& node : nodes) {
    if (session.quiet) {
      std::printf("%s\n", node.node.c_str());
      continue;
    }
    std::printf("%s  %s  %-8d  %s, %s of %s\n", pad(node.node, width).c_str(),
                pad(node.cluster, 7).c_str(), node.failures,
                to_rfc3339(node.last.at).substr(0, 10).c_str(), node.last.job.c_str(),
                node.last.run.c_str());
  }
  if (!session.quiet) {
    std::printf(
        "A node is left out once it has as many failures as `exclude_nodes:` of the profile says.\n"
        "Taken back: dlflow status --forgive NODE\n");
  }
}

void forgive_node(Session& session, const std::string& name) {
  std::vector<std::string> known;
  bool any = false;
  for (const FailingNode& node : failing_nodes(session.store())) {
    known.push_back(node.node);
    if (node.node == name)
      any |= session.store().forgive_node(node.cluster, name, SystemClock().now());
  }
  if (!any) {
    throw Error(Errc::NotFound, "no job was lost on a node '" + name + "'" +
                                    did_you_mean(name, known) +
                                    "; `dlflow status --nodes` lists them");
  }
  if (!session.quiet) std::printf("%s may be used again.\n", name.c_str());
}

}  // namespace dlflow
