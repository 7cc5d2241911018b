#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/workflow.h"
#include "engine/run/notify/news.h"

/// `notify:`: telling people and programs what becomes of a run.
///
/// No process watches a chain, so whoever records something looks whether it is news: the engine of
/// a run on this machine, and in a batch system the node whose job has just ended. Several may find
/// the same at once. The first to make RUN/notified/NAME.json tells it, and nobody else; it makes
/// the file before it tells anybody, so that a kill leaves something untold, and never told twice.
///
/// What cannot be told is a warning in RUN/notified/NAME.log, and changes nothing of the run.
namespace dlflow {

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
