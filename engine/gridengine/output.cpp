#include "engine/gridengine/output.h"

#include <array>
#include <ctime>
#include <map>
#include <utility>

#include "base/text.h"
#include "engine/batch/batch_job.h"
#include "engine/batch/tool_runner.h"
#include "engine/gridengine/script.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// 59 of "59s"; 0 for what cannot be a time in seconds.
double leading_time(std::string_view text) {
  const auto value = leading_number<double>(text);
  return value >= 0 && value < 1e15 ? value : 0;
}

bool is_count(std::string_view text) { return number_from<uint32_t>(text).has_value(); }

std::string without_entities(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, char>, 5> kEntities = {
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};
  std::string plain;
  while (!text.empty()) {
    size_t length = 1;
    char c = text[0];
    for (const auto& [entity, meant] : kEntities) {
      if (text.starts_with(entity)) std::tie(length, c) = std::pair(entity.size(), meant);
    }
    plain += c;
    text.remove_prefix(length);
  }
  return plain;
}

std::string task_id(std::string_view job, uint64_t task) {
  return std::string(job) + "_" + std::to_string(task - 1);
}

/// The ids of tasks "2,3" or "1-9:2" of job 812; 812 itself if there are no tasks.
std::vector<std::string> ids_of(const std::string& job, std::string_view tasks, size_t at_most) {
  if (tasks.empty()) return {job};
  std::vector<std::string> ids;
  for (const uint32_t task : parse_array_range(tasks, at_most)) {
    if (task > 0) ids.push_back(task_id(job, task));
  }
  return ids;
}

using Fields = std::map<std::string, std::string, std::less<>>;

/// Sets the end from "25  : rescheduling" and exit status 99. See accounting(5), sge_status(5).
void take_end(BatchJob& job, std::string_view failed, int exit) {
  const int code = leading_number<int>(failed);
  const size_t colon = failed.find(':');
  if (colon != failed.npos) job.reason = trim(failed.substr(colon + 1));
  job.exit = exit;
  switch (code) {
    case 0:
      job.state = exit == 0 ? BatchState::Completed : BatchState::Failed;
      job.log_refused = exit == kLogRefused;
      return;
    case 24:  // migrating
    case 25:  // rescheduling
      job.state = BatchState::Requeued;
      return;
    case 19:  // no exit status was written
    case 21:  // unknown to its node
      job.state = BatchState::NodeFail;
      return;
    case 37:
      job.state = BatchState::Timeout;
      return;
    default:
      job.state = BatchState::Failed;
      job.log_refused = code == 26 || code == 28;
      if (code == 100 && exit > 128) job.signal = exit - 128;
  }
}

void add_entry(BatchJobs& jobs, const Fields& fields) {
  const auto field = [&fields](std::string_view key) -> std::string_view {
    const auto found = fields.find(key);
    return found == fields.end() ? std::string_view() : found->second;
  };
  const std::string_view task = field("taskid");
  if (!is_count(field("jobnumber"))) return;
  BatchJob job;
  job.id = field("jobnumber");
  if (is_count(task) && task != "0") job.id = task_id(job.id, std::stoull(std::string(task)));
  job.name = field("jobname");
  job.node = field("hostname");
  take_end(job, field("failed"), leading_number<int>(field("exit_status")));
  job.end = parse_qacct_time(field("end_time"));
  job.elapsed = seconds(int64_t(leading_time(field("ru_wallclock"))));
  job.cpu_time = milliseconds(int64_t(leading_time(field("cpu")) * 1000));
  job.max_memory_bytes = memory_from(field("maxvmem"));
  job.cpus = leading_number<int>(field("slots"));
  jobs.put(std::move(job));
}

}  // namespace

std::vector<XmlTag> read_tags(std::string_view xml) {
  std::vector<XmlTag> tags;
  for (size_t open = xml.find('<'); open != xml.npos; open = xml.find('<', open + 1)) {
    const size_t close = xml.find('>', open);
    if (close == xml.npos) break;
    const std::string_view words = xml.substr(open + 1, close - open - 1);
    const size_t next = xml.find('<', close);
    if (next == xml.npos && !words.starts_with('/')) break;  // truncated: incomplete text
    tags.push_back({words.substr(0, words.find_first_of(" \t\n")), words,
                    without_entities(trim(xml.substr(close + 1, next - close - 1)))});
  }
  return tags;
}

std::string_view attribute(const XmlTag& tag, std::string_view name) {
  for (const char quote : {'\'', '"'}) {
    const std::string start = " " + std::string(name) + "=" + quote;
    const size_t at = tag.words.find(start);
    if (at == tag.words.npos) continue;
    const std::string_view value = tag.words.substr(at + start.size());
    return value.substr(0, value.find(quote));
  }
  return {};
}

BatchState gridengine_state(std::string_view letters) {
  const auto has = [letters](std::string_view any) {
    return letters.find_first_of(any) != letters.npos;
  };
  if (has("dz")) return BatchState::Completing;
  if (has("q")) return BatchState::Pending;
  if (has("sST")) return BatchState::Suspended;
  if (has("t")) return BatchState::Configuring;
  return has("rR") ? BatchState::Running : BatchState::Unknown;
}

std::optional<std::string> qsub_id(std::string_view qsub_stdout) {
  std::optional<std::string> id;
  for (const std::string& line : split(qsub_stdout, '\n')) {
    const std::string_view word = trim(line);
    const std::string_view number = word.substr(0, word.find('.'));
    const std::string_view tasks = word.substr(number.size());
    const bool is_id = is_count(number) && number.find_first_not_of('0') != number.npos &&
                       tasks.find_first_not_of(".-:0123456789") == tasks.npos;
    if (is_id) id = number;
  }
  return id;
}

std::vector<BatchJob> parse_qstat(std::string_view xml) {
  BatchJobs jobs;
  BatchJob job;
  std::string tasks;
  for (XmlTag& tag : read_tags(xml)) {
    if (tag.name == "job_list") {
      job = {};
      tasks.clear();
    } else if (tag.name == "JB_job_number") {
      job.id = is_count(tag.text) ? tag.text : "";
    } else if (tag.name == "JB_name") {
      job.name = std::move(tag.text);
    } else if (tag.name == "state") {
      job.state = gridengine_state(tag.text);
      job.reason = std::move(tag.text);
    } else if (tag.name == "queue_name") {
      const size_t at = tag.text.find('@');
      if (at != tag.text.npos) job.node = tag.text.substr(at + 1);
    } else if (tag.name == "slots") {
      job.cpus = leading_number<int>(tag.text);
    } else if (tag.name == "tasks") {
      tasks = std::move(tag.text);
    } else if (tag.name == "/job_list" && !job.id.empty()) {
      const size_t room = kMaxQstatTasks - std::min(kMaxQstatTasks, jobs.size());
      for (std::string& id : ids_of(std::exchange(job.id, ""), tasks, room)) {
        BatchJob task = job;
        task.id = std::move(id);
        jobs.put(std::move(task));
      }
    }
  }
  return jobs.take();
}

std::vector<BatchJob> parse_qacct(std::string_view text) {
  BatchJobs jobs;
  Fields fields;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("====")) {
      add_entry(jobs, std::exchange(fields, {}));
      continue;
    }
    const size_t space = line.find(' ');
    if (space == line.npos) continue;
    fields.emplace(line.substr(0, space), trim(std::string_view(line).substr(space)));
  }
  add_entry(jobs, fields);
  return jobs.take();
}

std::optional<Time> parse_qacct_time(std::string_view text) {
  const std::string word(trim(text));
  for (const char* const form : {"%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S"}) {
    std::tm fields{};
    if (::strptime(word.c_str(), form, &fields) == nullptr) continue;
    const time_t time = ::timegm(&fields);
    constexpr time_t kYear3000 = 32'503'680'000;
    if (time > 0 && time < kYear3000) return Time(seconds(time));
  }
  return std::nullopt;
}

bool is_transient_for_gridengine(const Output& output) {
  constexpr std::array<std::string_view, 6> kPhrases = {"unable to send message to qmaster",
                                                        "commlib error",
                                                        "got send error",
                                                        "got select error",
                                                        "unable to contact qmaster",
                                                        "failed receiving gdi request"};
  if (output.timed_out || output.status.signal != 0) return true;
  return output.status.code != 0 && contains_any(output.errors + output.text, kPhrases);
}

SubmitAnswer qsub_answer(const Output& output, milliseconds time_limit) {
  constexpr std::array<std::string_view, 1> kTooMany = {"jobs are allowed"};
  return submit_answer("qsub", output, qsub_id(output.text), is_transient_for_gridengine(output),
                       kTooMany, time_limit);
}

/// Both tools print successes and failures to standard output.
JobAnswer qdel_answer(const Output& output) {
  constexpr std::array<std::string_view, 1> kGone = {"does not exist"};
  constexpr std::array<std::string_view, 2> kRefused = {"not permitted", "must be manager"};
  const std::string said = output.text + output.errors;
  if (output.status.code == 0) return {};
  const std::string message = errors_of(said);
  const bool gone = contains_any(said, kGone) && !contains_any(said, kRefused);
  return {gone ? JobAnswer::Kind::Gone : JobAnswer::Kind::Refused, message};
}

}  // namespace dlflow
