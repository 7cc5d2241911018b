#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "engine/batch/batch_system.h"

/// Parsers of the output of qsub, qstat, qacct and qdel. Parsers of lists do not fail: they skip
/// unexpected lines.
namespace dlflow {

/// An XML tag and the text after it, which is the element's text if it contains no other elements.
struct XmlTag {
  std::string_view name;   ///< "host"; "/host" for its end
  std::string_view words;  ///< the whole tag: "host name='ge-n1'"
  std::string text;        ///< without surrounding blanks, entities replaced
};

std::vector<XmlTag> read_tags(std::string_view xml);

/// The value of attribute `name`; empty if it is missing.
std::string_view attribute(const XmlTag& tag, std::string_view name);

/// "qw", "hqw", "dr", "Eqw".
BatchState gridengine_state(std::string_view letters);

/// The id printed by `qsub -terse`: 812 for "812" and for "812.1-3:1".
std::optional<std::string> qsub_id(std::string_view qsub_stdout);

/// Parses `qstat -xml`, with each task of an array on its own, up to kMaxQstatTasks tasks.
/// `BatchJob::reason` holds the letters of the state.
inline constexpr size_t kMaxQstatTasks = 200'000;
std::vector<BatchJob> parse_qstat(std::string_view xml);

/// Parses `qacct -j`, which has one entry per pass. Returns the last entry of each id.
std::vector<BatchJob> parse_qacct(std::string_view text);

/// "Mon Nov 23 18:38:52 2026" or "11/23/2026 18:38:52.123", in UTC.
std::optional<Time> parse_qacct_time(std::string_view text);

/// Accepted only with an id and exit status 0.
SubmitAnswer qsub_answer(const Output& output, std::chrono::milliseconds time_limit);

/// The result of qdel or qalter.
JobAnswer qdel_answer(const Output& output);

/// Whether a retry may succeed: qmaster did not answer, or the tool was killed.
bool is_transient_for_gridengine(const Output& output);

}  // namespace dlflow
