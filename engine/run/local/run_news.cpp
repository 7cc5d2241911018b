#include "engine/run/local/run_news.h"

#include <utility>

#include "engine/plan/notifications.h"
#include "engine/run/notify/notify.h"

namespace dlflow {

void RunNews::failed(uint32_t job, const std::string& reason) {
  const auto notify = read_notifications(plan_.directory);
  if (!notify) return;
  JobEvent end = ending_of(jobs_[job]);
  end.job = plan_.jobs[job].name;
  end.attempt = jobs_[job].attempt;
  end.reason = reason;
  const auto news = news_of(*notify, plan_.run, end, jobs_.is_allowed_failure(job));
  if (news) tell_aside(plan_.directory, *news);
  const bool counts = is_failure(*end.state) && !jobs_.is_allowed_failure(job);
  if (counts && !failure_) failure_ = std::move(end);
}

void RunNews::ended(RunState state) const {
  const bool failed = state == RunState::Failed;
  if (!failed && state != RunState::Succeeded) return;
  News news{.run = plan_.run, .state = failed ? JobState::Failed : JobState::Succeeded};
  if (failed && failure_) {
    news.state = *failure_->state;
    news.job = failure_->job;
    news.reason = failure_->reason;
  }
  for (uint32_t job = 0; job < jobs_.size(); ++job) news.number += jobs_[job].attempt;
  tell_aside(plan_.directory, news);
}

}  // namespace dlflow
