#pragma once

#include <memory>

#include "engine/cli/session.h"
#include "engine/cli/workflow_argument.h"

/// `--trust-results`: the results in a bundle of a run are reused as if this user had computed
/// them.
namespace dlflow {

/// Takes the results of the bundle that `workflow` is of into a run of this user, if the option was
/// given, and says on standard output whose they are and which are not taken. Without the option,
/// says that there are some. Returns what is known then: the results of the store, and what steps
/// of the bundle will leave. Throws Error{InvalidInput} if the option was given, and `workflow` is
/// of no bundle of a run. \param session  outlives it.
std::unique_ptr<KnownResults> take_trusted_results(Session& session,
                                                   const WorkflowArgument& argument,
                                                   const PlanArguments& arguments,
                                                   const Workflow& workflow,
                                                   const Profile& profile);

/// The results that are known if the option was given, and nothing is to be written: those of the
/// store, and those of the bundle, whose bytes are not looked at. \param session  outlives them.
std::unique_ptr<KnownResults> preview_trusted_results(Session& session,
                                                      const WorkflowArgument& argument,
                                                      const PlanArguments& arguments,
                                                      const Workflow& workflow,
                                                      const Profile& profile);

}  // namespace dlflow
