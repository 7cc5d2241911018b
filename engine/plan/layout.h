#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/plan/plan.h"

/// The stages of make_plan; load_run repeats the first and the last from frozen settings.
namespace dlflow {

/// Creates steps with their elements, jobs without decisions, and the graph from `workflow` and
/// `options`. Throws like make_plan.
void lay_out(Plan& plan);

/// Whether `value` mentions an axis of the matrix.
bool depends_on_element(const Template& value);

/// Finds all files that the steps read. Sets `files`, `outside`, and each step's `inputs`,
/// `visible_params` and `sees_run`. Throws like make_plan.
void read_files(Plan& plan, FileHashes& hashes);

/// The secrets of a step: its own, and those that `inherit:` of the profile adds.
std::set<std::string> secrets_of(const Plan& plan, const Step& step);

/// Checks files that jobs name through an axis whose values came from a step's output. All must
/// have been read before the run, since results depend on them. Throws Error{InvalidInput} naming
/// the first that was not.
void check_files_of_elements(const Plan& plan);

/// The files that one job reads, with their hashes. `with` is its evaluated `with:`.
ContentHashes files_of(const Plan& plan, const PlannedJob& job, const Json& with);

/// The conditions of `reuse:` found for one job, for the fingerprint. Elements of a step may differ
/// in the program.
Json conditions_of(const Plan& plan, const PlannedJob& job);

/// The state that one job's files must have when it runs. `with` is its evaluated `with:`.
SourceProofs source_proofs(const Plan& plan, const PlannedJob& job, const Json& with);

/// The packages installed for `environment:` of a step, as SourceProofs::packages.
std::map<std::string, std::string> planned_packages(const Plan& plan, uint32_t step);

/// Whether the program or the packages that a job will find are unknown.
bool has_unknown_conditions(const Plan& plan, const PlannedJob& job);

/// Gives every job its action. Calls `find` for jobs whose parents are all reused.
void decide(Plan& plan, const std::function<std::optional<KnownResult>(uint32_t job)>& find);

/// A mistake in a workflow found after it was read: "file:line:column: error: …". Printed without a
/// prefix.
class LocatedError : public Error {
 public:
  explicit LocatedError(const Diagnostic& diagnostic)
      : Error(Errc::InvalidInput, to_string(diagnostic)) {}
};

/// Throws a LocatedError about a place in the workflow.
[[noreturn]] void throw_at(const Workflow& workflow, Location location, const std::string& message);

/// The kind of file that a path in `with:` leads to.
enum class PathRole {
  None,     ///< not a path
  Frozen,   ///< a file beside the workflow, copied into the run
  Outside,  ///< data that is read in place
};

/// Calls `visit` for every known path in `with` of step kind `uses`, at any depth; `key` is the key
/// of `with` that holds it. URLs are not paths.
using PathVisitor = std::function<void(const std::string& key, PathRole role, Json& path)>;
void visit_paths(const std::string& uses, Json& with, const PathVisitor& visit);

/// These paths, and the URLs of staged local files without a hash.
std::vector<std::string> places_named(const std::string& uses, const Json& with);

/// Whether `with` may name a place that is known only in a run and is no parent's output. Such a
/// place cannot be inspected when the run is planned.
bool names_late_places(const std::string& uses, Json with);

}  // namespace dlflow
