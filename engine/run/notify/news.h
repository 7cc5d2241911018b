#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "engine/plan/job.h"

namespace dlflow {

/// An event of a run, for those who are told.
struct News {
  Notifications::Event event = Notifications::Event::End;
  std::string run;
  JobState state = JobState::Succeeded;  ///< of the job; at the end, Succeeded or Failed
  std::string job = {};                  ///< that failed; empty: none
  std::string reason = {};               ///< why it failed
  int number = 0;  ///< tells the ends of one run apart: it grows with each attempt
};

/// "demo-1 failed: train failed, exit 3"
std::string message(const News& news);

/// The news that the end of a job's attempt is, in the words of `on`; nothing if it is none.
std::optional<News> news_of(const Notifications& notify, const std::string& run,
                            const JobEvent& end, bool may_fail);

/// As programs are told.
Json to_json(const News& news);

}  // namespace dlflow
