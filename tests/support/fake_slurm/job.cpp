#include "tests/support/fake_slurm/job.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace dlflow::fake_slurm {
namespace {

constexpr std::array kStates = {"PENDING", "RUNNING",   "COMPLETED", "CANCELLED",    "FAILED",
                                "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"};

// One line a field, read and written: what is at its default is left out of the state file.
class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}
  template <typename T>
  void operator()(const char* key, T& value, const T& otherwise = T()) {
    if (value != otherwise) json_[key] = value;
  }
  template <typename T>
  void list(const char* key, std::vector<T>& values);

 private:
  Json& json_;
};

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  template <typename T>
  void operator()(const char* key, T& value, const T& otherwise = T()) {
    value = json_.value(key, otherwise);
  }
  template <typename T>
  void list(const char* key, std::vector<T>& values);

 private:
  const Json& json_;
};

template <typename Visitor>
void visit(Visitor& field, Request& r) {
  field("name", r.name);
  field("user", r.user);
  field("account", r.account);
  field("partition", r.partition);
  field("qos", r.qos);
  field("constraint", r.constraint);
  field("reservation", r.reservation);
  field("comment", r.comment);
  field("wckey", r.wckey);
  field("directory", r.directory);
  field("script", r.script_path);
  field("stored", r.stored);
  field("output", r.output);
  field("error", r.error);
  field("gres", r.gres);
  field("dependency", r.dependency);
  field("array", r.array);
  field("mail_user", r.mail_user);
  field("mail_type", r.mail_type);
  field("arguments", r.arguments);
  field("nodes", r.nodes);
  field("ntasks", r.tasks, 1);
  field("tasks_per_node", r.tasks_per_node);
  field("cpus_per_task", r.cpus_per_task, 1);
  field("memory_mb", r.memory_mb);
  field("memory_per_cpu_mb", r.memory_per_cpu_mb);
  field("gpus_per_node", r.gpus_per_node);
  field("gpus_per_task", r.gpus_per_task);
  field("gpus", r.gpus);
  field("minutes", r.minutes);
  field("signal", r.signal);
  field("signal_lead", r.signal_lead);
  field("signal_batch_only", r.signal_batch_only);
  field("exclusive", r.exclusive);
  field("requeue", r.requeue, true);
  field("hold", r.held);
  field("kill_on_invalid_dependency", r.kill_on_invalid_dependency);
  field("append", r.append);
  field("throttle", r.throttle);
  field("nice", r.nice);
  field("begin", r.begin);
}

template <typename Visitor>
void visit(Visitor& field, Dependency& d) {
  field("type", d.type);
  field("job", d.job);
  field("task", d.task, -1);
  field("minutes", d.minutes);
  field("any", d.any);
  field("mark", d.mark);
}

template <typename Visitor>
void visit(Visitor& field, Share& s) {
  field("node", s.node);
  field("cpus", s.cpus);
  field("tasks", s.tasks);
  field("memory_mb", s.memory_mb);
  field("gpus", s.gpus);
}

template <typename Visitor>
void visit(Visitor& field, Pass& p) {
  field("state", p.state);
  field("submitted", p.submitted);
  field("started", p.started);
  field("ended", p.ended);
  field.list("shares", p.shares);
}

template <typename Visitor>
void visit(Visitor& field, SentSignal& s) {
  field("number", s.number);
  field("batch", s.batch);
  field("at", s.at);
}

template <typename Visitor>
void visit(Visitor& field, Task& t) {
  field("index", t.index, -1);
  field("raw_id", t.raw_id);
  field("reason", t.reason, std::string("None"));
  field.list("dependencies", t.dependencies);
  field("held", t.held);
  field("submitted", t.submitted);
  field("eligible", t.eligible);
  field("begin", t.begin);
  field("started", t.started);
  field("ended", t.ended);
  field("exit_code", t.exit_code);
  field("exit_signal", t.exit_signal);
  field("cancelled_by", t.cancelled_by, -1);
  field("restarts", t.restarts);
  field("signalled", t.signalled);
  field("purged", t.purged);
  field("pid", t.pid);
  field.list("shares", t.shares);
  field.list("passes", t.passes);
  field.list("signals", t.signals);
}

template <typename T>
void Writer::list(const char* key, std::vector<T>& values) {
  for (T& value : values) {
    Json element = Json::object();
    Writer writer(element);
    visit(writer, value);
    json_[key].push_back(std::move(element));
  }
}

template <typename T>
void Reader::list(const char* key, std::vector<T>& values) {
  const auto found = json_.find(key);
  if (found == json_.end()) return;
  for (const Json& element : *found) {
    Reader reader(element);
    visit(reader, values.emplace_back());
  }
}

}  // namespace

const char* name(State state) { return kStates.at(size_t(state)); }

std::optional<State> state_of(std::string word) {
  std::transform(word.begin(), word.end(), word.begin(), ::toupper);
  const auto found = std::find(kStates.begin(), kStates.end(), word);
  if (found == kStates.end()) return std::nullopt;
  return State(found - kStates.begin());
}

Json to_json(const Job& job) {
  Json json = {{"id", job.id}, {"tasks", Json::array()}};
  Job copy = job;  // a visitor that also reads takes no const
  Writer writer(json["request"] = Json::object());
  visit(writer, copy.request);
  for (Task& task : copy.tasks) {
    Json element = {{"state", name(task.state)}};
    Writer fields(element);
    visit(fields, task);
    json["tasks"].push_back(std::move(element));
  }
  return json;
}

Job job_from_json(const Json& json) {
  Job job;
  job.id = json.at("id").get<JobId>();
  Reader reader(json.at("request"));
  visit(reader, job.request);
  for (const Json& element : json.at("tasks")) {
    Task& task = job.tasks.emplace_back();
    task.state = state_of(element.at("state").get<std::string>()).value();
    Reader fields(element);
    visit(fields, task);
  }
  return job;
}

}  // namespace dlflow::fake_slurm
