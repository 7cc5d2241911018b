#include "engine/run/chain/fit.h"

#include "engine/batch/limits.h"
#include "engine/plan/places.h"
#include "engine/run/chain/login_jobs.h"

namespace dlflow {

ClusterLimits fit_to_cluster(Plan& plan, const ChainServices& services) {
  ClusterLimits cluster = services.batch.cluster();
  const Profile limited = with_cluster_limits(plan.profile, cluster);
  plan.profile.classes = limited.classes;
  place_jobs(plan);  // with what the cluster says of each class
  check_limits(plan, services.batch, cluster);
  check_login_jobs(plan, services);
  plan.profile = limited;
  place_jobs(plan);
  return cluster;
}

}  // namespace dlflow
