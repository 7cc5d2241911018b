#include "engine/gridengine/section.h"

#include <algorithm>
#include <array>

#include "engine/model/forms.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

/// Options of qsub that a profile must not set: dlflow sets them for each job, or they make qsub do
/// something other than submit.
constexpr std::array<std::string_view, 27> kOwnQsubOptions = {
    "-@",    "-C",        "-N",           "-S", "-V",  "-b",      "-clear",  "-cwd", "-e",
    "-help", "-hold_jid", "-hold_jid_ad", "-i", "-j",  "-notify", "-now",    "-o",   "-pe",
    "-r",    "-shell",    "-sync",        "-t", "-tc", "-terse",  "-verify", "-w",   "-wd"};

bool is_qsub_option(std::string_view text) {
  constexpr std::string_view kQsubLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  const std::string_view name = text.substr(0, text.find(' '));
  const bool own =
      std::find(kOwnQsubOptions.begin(), kOwnQsubOptions.end(), name) != kOwnQsubOptions.end();
  return name.size() > 1 && name[0] == '-' && !own &&
         name.find_first_not_of(kQsubLetters, 1) == name.npos && kLineForm.accepts(text);
}

const Form kQsubOptionForm = {
    .what = "a free option of qsub",
    .examples =
        "'-l arch=lx-amd64' or '-R y'; dlflow itself sets -t, -pe, -hold_jid, -o, "
        "-notify; -sync, -verify and -now are not for jobs",
    .pattern = "^-[A-Za-z_]+( .*)?$",
    .accepts = is_qsub_option};

}  // namespace

GridEngineOptions gridengine_options(const Profile& profile) {
  return batch_options<GridEngineOptions>(profile, "gridengine");
}

BatchSection gridengine_section() {
  const Shape line = formed(kLineForm);
  return {.options = object({
              {"queue", line, "Queue that jobs are submitted to", kOptional, ""},
              {"project", line, "Project that pays", kOptional, ""},
              {"parallel_environment", line, "Parallel environment of jobs with several cores",
               kOptional, ""},
              {"memory", line, "Resource that limits the memory of a slot", kOptional, ""},
              {"gpus", line, "Resource that requests GPUs of a job", kOptional, ""},
              {"options", list_of(formed(kQsubOptionForm)), "Further options of qsub", kOptional,
               Json::array()},
          }),
          .summary = "Options of every qsub",
          .partition = "queue",
          .job_variables = {"SGE_*", "PE_HOSTFILE", "JOB_ID", "NSLOTS", "ARC"}};
}

}  // namespace dlflow
