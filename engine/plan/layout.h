#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/plan/plan.h"

/// The stages of make_plan; load_run repeats the first and the last from what was frozen.
namespace dlflow {

/// From `workflow` and `options`: steps with their elements, jobs without decisions, the graph.
/// Throws as make_plan.
void lay_out(Plan& plan);

/// Whether `value` mentions an axis of the matrix.
bool depends_on_element(const Template& value);

/// Finds all files that the steps read: `files`, `outside`, and each step's `inputs`,
/// `visible_params` and `sees_run`. Throws as make_plan.
void read_files(Plan& plan, FileHashes& hashes);

/// The secrets of a step: its own, and those that `inherit:` of the profile brings.
std::set<std::string> secrets_of(const Plan& plan, const Step& step);

/// Looks whether all files that jobs name through an axis whose values a step has decided were
/// looked at before the run, as results depend on them. Throws Error{InvalidInput} naming the first
/// that was not.
void check_files_of_elements(const Plan& plan);

/// The files that one job reads, with their hashes. `with` is its evaluated `with:`.
ContentHashes files_of(const Plan& plan, const PlannedJob& job, const Json& with);

/// What `reuse:` of one job's step has found for it, for the fingerprint. The program of `program`
/// may be another one for each element.
Json conditions_of(const Plan& plan, const PlannedJob& job);

/// What the files that one job reads have to be when it runs. `with` is its evaluated `with:`.
SourceProofs source_proofs(const Plan& plan, const PlannedJob& job, const Json& with);

/// What `environment:` of a step had installed, as SourceProofs::packages.
std::map<std::string, std::string> planned_packages(const Plan& plan, uint32_t step);

/// Whether nobody knows which program, or which packages, one job will find.
bool has_unknown_conditions(const Plan& plan, const PlannedJob& job);

/// Gives every job its action. `find` is asked for jobs all of whose parents are reused.
void decide(Plan& plan, const std::function<std::optional<KnownResult>(uint32_t job)>& find);

/// A mistake in a workflow that was found after it was read: "file:line:column: error: …". What
/// prints it puts nothing before it.
class LocatedError : public Error {
 public:
  explicit LocatedError(const Diagnostic& diagnostic)
      : Error(Errc::InvalidInput, to_string(diagnostic)) {}
};

/// Throws a LocatedError about a place in the workflow.
[[noreturn]] void throw_at(const Workflow& workflow, Location location, const std::string& message);

/// The kind of file that a path in `with:` leads to.
enum class PathRole {
  None,     ///< it is no path
  Frozen,   ///< a file beside the workflow, copied into the run
  Outside,  ///< data that is read where it lies
};

/// Calls `visit` for every path that is known in `with`, of the step kind `uses`, however deep;
/// `key` is the one of `with` that holds it. URLs are no paths.
using PathVisitor = std::function<void(const std::string& key, PathRole role, Json& path)>;
void visit_paths(const std::string& uses, Json& with, const PathVisitor& visit);

/// These paths, and the URLs of local files that are staged and not pinned.
std::vector<std::string> places_named(const std::string& uses, const Json& with);

/// Whether `with` may have a place that only a run knows, and that is no parent's output: then
/// nobody looks at it when the run is planned.
bool names_late_places(const std::string& uses, Json with);

}  // namespace dlflow
