#pragma once

#include "engine/cli/session.h"
#include "engine/plan/secrets.h"

/// Where the command line takes secrets from, and that it hands them to nobody else.
namespace dlflow {

/// The values for a new run. Throws as find_secrets.
Secrets secrets_of_new_run(const Plan& plan);

/// Writes RUN/secrets, if there are any.
void keep_secrets(const Plan& plan, const Secrets& secrets);

/// Before a run is gone on with: RUN/secrets has what the jobs need that may still run, new values
/// where there are some. Throws as find_secrets.
void renew_secrets(Session& session, const Plan& plan);

/// What dlflow starts from here on, the batch system among it, inherits none of what `workflow`
/// calls secret.
void hide_secrets(const Workflow& workflow);

}  // namespace dlflow
