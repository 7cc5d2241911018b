#include "engine/slurm/section.h"

#include <algorithm>
#include <array>

#include "engine/model/forms.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

/// Options of sbatch that a profile must not set: dlflow sets them for each job, or they make
/// sbatch do something other than submit a job here and print its id.
constexpr std::array<std::string_view, 22> kOwnOptions = {
    "array",  "chdir",       "clusters", "comment",  "dependency", "error",
    "export", "export-file", "help",     "job-name", "no-requeue", "open-mode",
    "output", "parsable",    "quiet",    "requeue",  "signal",     "test-only",
    "usage",  "version",     "wait",     "wrap"};

bool is_sbatch_option(std::string_view text) {
  constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz-";
  if (!text.starts_with("--")) return false;
  const std::string_view name = text.substr(2, text.find('=') - 2);
  // sbatch accepts abbreviated names.
  const bool own = std::any_of(kOwnOptions.begin(), kOwnOptions.end(),
                               [name](std::string_view o) { return o.starts_with(name); });
  return !own && !name.empty() && name.find_first_not_of(kNameLetters) == name.npos &&
         kLineForm.accepts(text);
}

/// YAML reads "[--gres=gpu:2,nic:1]" as two entries.
std::string sbatch_option_advice(std::string_view text) {
  std::string word(text);
  if (const size_t space = text.find(' '); text.starts_with("--") && space != text.npos) {
    return "write " + word.replace(space, 1, "=");
  }
  if (text.starts_with("-") || text.find(' ') != text.npos) return "";
  return "an option begins with --, and a comma inside [ ] begins the next entry; write '--" +
         word + "', or put the whole option in quotes, '--OPTION=…," + word + "'";
}

const Form kSbatchOptionForm = {
    .what = "a free option of sbatch",
    .examples =
        "--hint=nomultithread, or another in its long form; dlflow itself sets --array, "
        "--dependency, --output, --signal; --clusters, --wait and --test-only are not for jobs",
    .pattern = "^--[a-z-]+(=.*)?$",
    .accepts = is_sbatch_option,
    .advice = sbatch_option_advice};

}  // namespace

SlurmOptions slurm_options(const Profile& profile) {
  return batch_options<SlurmOptions>(profile, "slurm");
}

BatchSection slurm_section() {
  const Shape line = formed(kLineForm);
  return {.options = object({
              {"partition", line, "Partition that jobs are submitted to", kOptional, ""},
              {"account", line, "Account or project that pays", kOptional, ""},
              {"qos", line, "Quality of service", kOptional, ""},
              {"constraint", line, "Features that nodes must have", kOptional, ""},
              {"reservation", line, "Reservation to run in", kOptional, ""},
              {"exclusive", boolean(), "Whether a job has its nodes to itself", kOptional, false},
              {"gres", line, "Resource that requests GPUs of a node", kOptional, "gpu:{gpus}"},
              {"options", list_of(formed(kSbatchOptionForm)), "Further options of sbatch",
               kOptional, Json::array()},
          }),
          .summary = "Options of every sbatch",
          .partition = "partition",
          .job_variables = {"SLURM_*"}};
}

}  // namespace dlflow
