#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/model/workflow.h"
#include "engine/plan/job.h"

/// `notify:`: tells people and programs about the progress of a run.
///
/// No process watches a chain, so each process that records something checks whether it is news:
/// the engine of a run on this machine, and in a batch system the node whose job has just ended.
/// Several may find the same news at once. Only the first to create RUN/notified/NAME.json tells
/// it. The file is created before anyone is told, so that after a kill news may stay untold, but is
/// never told twice.
///
/// A message that cannot be sent is a warning in RUN/notified/NAME.log, and changes nothing in the
/// run.
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

/// The file that gives the right to tell `news`; nothing if it is told already, or nobody wants it.
/// Throws Error.
std::optional<std::filesystem::path> claim_news(const std::filesystem::path& run_directory,
                                                const Notifications& notify, const News& news);

/// The time limit of each program that tells; then it is killed.
inline constexpr std::chrono::milliseconds kTellLimit = std::chrono::seconds(30);

/// Sends the news in `record` to all recipients at once, and writes NAME.log. Returns its warnings.
/// Does not throw. \param address  of the webhook
std::vector<std::string> tell(const std::filesystem::path& record, const std::string& address,
                              std::chrono::milliseconds limit = kTellLimit);

/// The secret address of the webhook in RUN/secrets; empty: there is none.
std::string webhook_address(const std::filesystem::path& run_directory,
                            const Notifications& notify);

/// Starts `dlflow notify-exec` in a session of its own, if somebody wants the news and it is not
/// told yet. Does not wait, and does not throw.
void tell_aside(const std::filesystem::path& run_directory, const News& news);

/// `dlflow notify-exec RECORD`
int notify_exec(const std::filesystem::path& record);

/// Whether a webhook's address is still needed, since the end of the run is to be told.
bool waits_to_be_told(const std::filesystem::path& run_directory);

}  // namespace dlflow
