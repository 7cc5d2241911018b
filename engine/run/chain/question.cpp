#include "engine/run/chain/question.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace dlflow {
namespace {

/// What the controller has of the jobs that nobody else knows joins the queue; what it denies is
/// gone. Where it says neither, nothing is known of the job now. So many at a time: with the next
/// look come the rest.
void ask_controller(BatchSystem& batch, const ChainQuestion& question, ChainAnswer& answer) {
  constexpr size_t kMostAtOnce = 200;
  std::map<std::string, std::vector<JobIdentity>> vanished;  // by job or array
  for (JobIdentity& job : jobs_nobody_knows(question.open, answer.queue, answer.accounting.jobs)) {
    vanished[std::string(array_id(job.id))].push_back(std::move(job));
  }
  size_t asked = 0;
  for (const auto& [array, jobs] : vanished) {
    if (asked++ == kMostAtOnce) return;
    auto shown = batch.show_job(array);
    if (!shown) continue;
    for (const JobIdentity& job : jobs) answer.gone.insert(job.id);
    for (const std::string& id : ids_of_known(jobs, *shown)) answer.gone.erase(id);
    std::move(shown->begin(), shown->end(), std::back_inserter(answer.queue));
  }
}

}  // namespace

void ChainQuestion::add(ChainQuestion other) {
  const bool first = is_empty();
  std::move(other.open.begin(), other.open.end(), std::back_inserter(open));
  std::move(other.ended.begin(), other.ended.end(), std::back_inserter(ended));
  since = first ? other.since : std::min(since, other.since);
}

ChainAnswer ask(BatchSystem& batch, const ChainQuestion& question, Doubt doubt) {
  ChainAnswer answer;
  std::vector<std::string> ids = question.ended;
  if (!question.open.empty()) {
    answer.queue = batch.queue();
    for (std::string& id : ids_to_ask_for(question.open, answer.queue))
      ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());  // tasks that jobs share are there more than once
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (!ids.empty()) answer.accounting = batch.accounting(ids, question.since);
  if (doubt == Doubt::GiveUp) {
    std::erase_if(answer.accounting.jobs, [](const BatchJob& job) { return !is_over(job.state); });
  }
  if (answer.accounting.complete) ask_controller(batch, question, answer);
  return answer;
}

}  // namespace dlflow
