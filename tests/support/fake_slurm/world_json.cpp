#include "tests/support/fake_slurm/world.h"

// The state file: every key of the configuration is written, so that a person can read and edit it.
namespace dlflow::fake_slurm {
namespace {

Json to_json(const Config& c) {
  Json nodes = Json::array();
  for (const Node& node : c.nodes) {
    nodes.push_back({{"name", node.name},
                     {"cpus", node.cpus},
                     {"memory_mb", node.memory_mb},
                     {"gpus", node.gpus}});
  }
  Json partitions = Json::array();
  for (const Partition& partition : c.partitions) {
    partitions.push_back({{"name", partition.name},
                          {"max_minutes", partition.max_minutes},
                          {"default", partition.is_default}});
  }
  return {{"cluster", c.cluster},
          {"version", c.version},
          {"nodes", nodes},
          {"partitions", partitions},
          {"accounts", c.accounts},
          {"qos", c.qos},
          {"accounting", c.accounting},
          {"federation", c.federation},
          {"max_array_size", c.max_array_size},
          {"max_job_count", c.max_job_count},
          {"max_submit", c.max_submit},
          {"min_job_age", c.min_job_age},
          {"requeue_delay", c.requeue_delay},
          {"configure_seconds", c.configure_seconds},
          {"complete_seconds", c.complete_seconds},
          {"requeue_by_default", c.requeue_by_default}};
}

Config config_from_json(const Json& json) {
  Config c;
  for (const Json& node : json.at("nodes")) {
    c.nodes.push_back({node.at("name"), node.at("cpus"), node.at("memory_mb"), node.at("gpus")});
  }
  c.partitions.clear();
  for (const Json& partition : json.at("partitions")) {
    c.partitions.push_back(
        {partition.at("name"), partition.at("max_minutes"), partition.at("default")});
  }
  json.at("cluster").get_to(c.cluster);
  json.at("version").get_to(c.version);
  json.at("accounts").get_to(c.accounts);
  json.at("qos").get_to(c.qos);
  json.at("accounting").get_to(c.accounting);
  json.at("federation").get_to(c.federation);
  json.at("max_array_size").get_to(c.max_array_size);
  json.at("max_job_count").get_to(c.max_job_count);
  json.at("max_submit").get_to(c.max_submit);
  json.at("min_job_age").get_to(c.min_job_age);
  json.at("requeue_delay").get_to(c.requeue_delay);
  json.at("configure_seconds").get_to(c.configure_seconds);
  json.at("complete_seconds").get_to(c.complete_seconds);
  json.at("requeue_by_default").get_to(c.requeue_by_default);
  return c;
}

/// A request is written and read as part of a job.
Json request_to_json(const Request& request) {
  Job job;
  job.request = request;
  return to_json(job).at("request");
}

}  // namespace

Json to_json(const World& world) {
  Json json = {{"config", to_json(world.config)}, {"now", world.now},
               {"next_id", world.next_id},        {"jobs", Json::array()},
               {"outcomes", Json::array()},       {"late", Json::array()}};
  for (const Job& job : world.jobs) json["jobs"].push_back(to_json(job));
  for (const Outcome& outcome : world.outcomes) {
    json["outcomes"].push_back({{"glob", outcome.glob},
                                {"after", outcome.after},
                                {"state", name(outcome.state)},
                                {"exit_code", outcome.exit_code}});
  }
  for (const Late& late : world.late) {
    json["late"].push_back(
        {{"request", request_to_json(late.request)}, {"due", late.due}, {"calls", late.calls}});
  }
  return json;
}

World world_from_json(const Json& json) {
  World world;
  world.config = config_from_json(json.at("config"));
  json.at("now").get_to(world.now);
  json.at("next_id").get_to(world.next_id);
  for (const Json& job : json.at("jobs")) world.jobs.push_back(job_from_json(job));
  for (const Json& o : json.at("outcomes")) {
    world.outcomes.push_back({o.at("glob"), o.at("after"),
                              state_of(o.at("state").get<std::string>()).value(),
                              o.at("exit_code")});
  }
  for (const Json& late : json.at("late")) {
    const Json job = {{"id", 0}, {"request", late.at("request")}, {"tasks", Json::array()}};
    world.late.push_back({job_from_json(job).request, late.at("due"), late.at("calls")});
  }
  return world;
}

}  // namespace dlflow::fake_slurm
