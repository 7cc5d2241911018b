#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/plan/plan.h"

/// Fan-out known at run time: the values of an axis come from a step's output.
///
/// Until that step has ended, its axis has one value, null, which stands for all: the plan has one
/// job for all elements of the step, and this job never runs. When the list is known, an
/// *extension* is written into the run, once, and never changed. From then on the plan has a job
/// for each value. A later list of the same step replaces the earlier one.
///
/// In a plan, jobs of steps that wait for no list come first, then the jobs of each extension in
/// the order of their numbers, then open ones. So an extension never renumbers a job that may have
/// begun, unless it replaces an earlier list.
namespace dlflow {

/// The largest number of values in a list.
inline constexpr size_t kMaxListed = 10'000;

/// The outputs of step `step` that hold the values of an axis.
std::set<std::string> listed_outputs(const Workflow& workflow, std::string_view step);

/// The values that `list` gives to an axis. Throws Error{InvalidInput} with the reason if it gives
/// none. `what` names the source of the list: "output 'parts'".
AxisValues values_of_list(const Json& list, const std::string& what);

/// Like values_of_list, for the text of a file.
AxisValues values_in_text(std::string_view text, const std::string& what);

/// Reads the text of a file that holds a list. Throws Error{InvalidInput} if it holds none.
std::string read_list(const std::filesystem::path& file, const std::string& what);

/// Whether a planned step takes the values of an axis from `step`.
bool leaves_lists(const Plan& plan, uint32_t step);

/// Whether the plan is laid out with a list of this step.
bool has_list_of(const Plan& plan, const std::string& step);

/// The extension that the result of a step adds to `plan`: its listed_outputs(), with the next
/// number. Nothing if the plan already has these lists. Throws Error like values_of_list, also if a
/// file with a list changed after the step ended.
std::optional<Extension> extension_for(const Plan& plan, const ParentResult& result);

/// The extensions of a run that are in force, in their order. Throws Error{Corrupt}.
std::vector<Extension> read_extensions(const std::filesystem::path& run_directory);

/// The number of the newest extension of a run; 0: it has none.
int newest_extension(const std::filesystem::path& run_directory);

/// Creates RUN/extensions/N.json unless it exists, and syncs it.
void write_extension(const std::filesystem::path& run_directory, const Extension& extension);

/// Sets the axis values of the plan's workflow. Must be called before lay_out().
void take_extensions(Plan& plan, std::vector<Extension> extensions);

/// Returns the plan with one more extension; writes nothing. Throws Error{InvalidInput} if the
/// lists lead to an impossible job: "work[part=x]: …".
Plan extended(const Plan& plan, Extension extension);

/// Whether a job stands for elements that are not known yet.
bool is_open(const Plan& plan, uint32_t job);

/// Describes a matrix with an open axis: "as many as `split` lists".
std::string as_listed(const Matrix& matrix);

/// The number of jobs, for people: "3 jobs", "2 jobs and as many as `split` lists".
/// \param with_reused  false: without those whose results are reused
std::string count_of_jobs(const Plan& plan, bool with_reused = true);

}  // namespace dlflow
