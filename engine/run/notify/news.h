#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "engine/plan/job.h"

namespace dlflow {

/// An event of a run that people are told.
struct News {
  Notifications::Event event = Notifications::Event::End;
  std::string run;
  JobState state = JobState::Succeeded;  ///< of the job; at the end, Succeeded or Failed
  JobName job = {};                      ///< the one that failed; empty: none
  std::string reason = {};               ///< why it failed
  int number = 0;  ///< distinguishes the ends of one run: it grows with each attempt
};

/// "demo-1 failed: train failed, exit 3"
std::string message(const News& news);

/// The news that the end of a job's attempt makes, in the words of `on`; nothing if it is no news.
std::optional<News> news_of(const Notifications& notify, const std::string& run,
                            const JobEvent& end, bool may_fail);

/// The form that programs get.
Json to_json(const News& news);

}  // namespace dlflow
