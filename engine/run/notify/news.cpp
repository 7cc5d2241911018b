#include "engine/run/notify/news.h"

#include "base/error.h"
#include "base/exit_status.h"

namespace dlflow {

using Event = Notifications::Event;

std::string message(const News& news) {
  const std::string failure = news.job.empty()
                                  ? ""
                                  : news.job + " " + std::string(name(news.state)) +
                                        (news.reason.empty() ? "" : ", " + news.reason);
  switch (news.event) {
    case Event::End:
      if (news.state == JobState::Succeeded) return news.run + " succeeded";
      return news.run + " failed" + (failure.empty() ? "" : ": " + failure);
    case Event::Failure:
      return news.run + ": " + failure;
    case Event::NoProgress:
      return news.run + ": " + news.job + " is not requeued again: " + news.reason;
  }
  DLFLOW_CHECK(false);
}

std::optional<News> news_of(const Notifications& notify, const std::string& run,
                            const JobEvent& end, bool may_fail) {
  if (!end.state || !is_failure(*end.state) || may_fail) return std::nullopt;
  News news{
      .run = run, .state = *end.state, .job = end.job, .reason = end.reason, .number = end.attempt};
  // A job that asks to be run again ends for good only in this way (ending.cpp).
  const bool asked_again = end.exit == kExitAgain;
  news.event =
      asked_again && notify.on.contains(Event::NoProgress) ? Event::NoProgress : Event::Failure;
  if (!notify.on.contains(news.event)) return std::nullopt;
  return news;
}

Json to_json(const News& news) {
  const bool of_run = news.event == Event::End && news.state != JobState::Succeeded;
  return {{"text", message(news)}, {"event", name(news.event)},
          {"run", news.run},       {"state", name(of_run ? JobState::Failed : news.state)},
          {"job", news.job},       {"reason", news.reason}};
}

}  // namespace dlflow
