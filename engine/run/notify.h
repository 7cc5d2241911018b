#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/plan/job.h"
#include "engine/plan/plan.h"

/// `notify:`: telling people and programs what becomes of a run.
///
/// No process watches a chain, so whoever records something looks whether it is news: the engine of
/// a run on this machine, and in a batch system the node whose job has just ended. Several may find
/// the same at once. The first to make RUN/notified/NAME.json tells it, and nobody else; it makes
/// the file before it tells anybody, so that a kill leaves something untold, and never told twice.
///
/// What cannot be told is a warning in RUN/notified/NAME.log, and changes nothing of the run.
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

/// Whether all jobs of a run have ended, by what is on record in its folder, and how: a job behind
/// one that failed has ended, too. Nothing if one is left, or people cancelled the run.
std::optional<News> end_on_record(const Plan& plan);

/// Whether the newest attempt of `job` has begun and not ended, by the record of its supervisor and
/// by that of the engine: then the run goes on, and end_on_record() would give nothing.
bool is_at_work(const std::filesystem::path& run_directory, const std::string& job);

/// The file that gives the right to tell `news`; nothing if it is told already, or nobody wants to
/// know. Throws Error.
std::optional<std::filesystem::path> claim_news(const std::filesystem::path& run_directory,
                                                const Notifications& notify, const News& news);

/// How long each program that tells may take; then it is killed.
inline constexpr std::chrono::milliseconds kTellLimit = std::chrono::seconds(30);

/// Tells what is in `record`, to all at once, and writes NAME.log. The warnings among its lines.
/// Does not throw. \param address  of the webhook
std::vector<std::string> tell(const std::filesystem::path& record, const std::string& address,
                              std::chrono::milliseconds limit = kTellLimit);

/// The secret address of the webhook in RUN/secrets; empty: there is none.
std::string webhook_address(const std::filesystem::path& run_directory,
                            const Notifications& notify);

/// Has `dlflow notify-exec` tell it in a session of its own, if somebody wants to know and it is
/// not told yet. Waits for nobody, and does not throw.
void tell_aside(const std::filesystem::path& run_directory, const News& news);

/// `dlflow notify-exec RECORD`
int notify_exec(const std::filesystem::path& record);

/// Whether the address of a webhook is needed until the end of the run is told.
bool waits_to_be_told(const std::filesystem::path& run_directory);

}  // namespace dlflow
