#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process.h"
#include "engine/batch/batch_system.h"

/// Output of qsub, qstat, qacct and qdel -> values. The readers of lists do not fail: they pass
/// over a line that is not as expected.
namespace dlflow {

/// A tag of XML and the text behind it; the text of an element if it has no others in it.
struct XmlTag {
  std::string_view name;   ///< "host"; "/host" of its end
  std::string_view words;  ///< all in the tag: "host name='ge-n1'"
  std::string text;        ///< without surrounding blanks, entities replaced
};

std::vector<XmlTag> read_tags(std::string_view xml);

/// The value of `name` in a tag; empty if it is not there.
std::string_view attribute(const XmlTag& tag, std::string_view name);

/// "qw", "hqw", "dr", "Eqw".
BatchState gridengine_state(std::string_view letters);

/// The id in what `qsub -terse` printed: 812 of "812" and of "812.1-3:1".
std::optional<std::string> qsub_id(std::string_view qsub_stdout);

/// Of `qstat -xml`, each task of an array on its own. `BatchJob::reason` has the state's letters.
/// Of more than kMaxQstatTasks tasks the rest stays out.
inline constexpr size_t kMaxQstatTasks = 200'000;
std::vector<BatchJob> parse_qstat(std::string_view xml);

/// Of `qacct -j`, each id once as its last entry has it: there is one per pass.
std::vector<BatchJob> parse_qacct(std::string_view text);

/// "Mon Nov 23 18:38:52 2026" or "11/23/2026 18:38:52.123", in UTC.
std::optional<Time> parse_qacct_time(std::string_view text);

/// Accepted only with an id and exit status 0.
SubmitAnswer qsub_answer(const Output& output, std::chrono::milliseconds time_limit);

/// Of a qdel or qalter that was answered.
JobAnswer qdel_answer(const Output& output);

/// The same command may succeed later: qmaster did not answer, or the tool was killed.
bool is_transient_for_gridengine(const Output& output);

}  // namespace dlflow
