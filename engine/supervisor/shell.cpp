#include "engine/supervisor/shell.h"

#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/parse_json.h"
#include "base/temporary_folder.h"
#include "engine/container/runtime.h"
#include "engine/plan/job.h"
#include "engine/plan/run_directory.h"
#include "engine/plan/secrets.h"
#include "engine/supervisor/container.h"
#include "engine/supervisor/launch.h"
#include "engine/supervisor/resolve.h"
#include "engine/supervisor/terminal.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

ResolvedJob resolve_or_throw(const JobSpec& spec) {
  try {
    return resolve(spec, read_parents(spec));
  } catch (const Skip& skip) {
    throw Error(Errc::InvalidInput, spec.job + " is skipped: " + skip.reason);
  } catch (const Block& block) {
    throw Error(Errc::InvalidInput, spec.job + " cannot run: " + block.reason);
  }
}

/// The FIFOs must be passed on to the image as all files of the run are.
void require_way_in(const ContainerSpec& container) {
  if (container_starts_ranks(container)) {
    throw Error(Errc::InvalidInput,
                "images of pyxis are entered by srun alone: srun --pty --container-image=… bash");
  }
  if (container.settings.runtime == "udocker" && udocker_runs_alone(container.settings.mode)) {
    throw Error(Errc::InvalidInput, "udocker's mode " + container.settings.mode +
                                        " gives programs a terminal of its own; for a shell set "
                                        "container.mode of the profile to P1");
  }
}

/// The job with the shell in place of its program and its launcher.
JobSpec with_shell(JobSpec spec, const Terminal& terminal) {
  spec.uses.clear();
  spec.run_command = terminal.served_by(frozen_program(spec.run_directory));
  spec.checkpoint.reset();
  spec.resources.ranks = 1;
  spec.launch = Launch::Ranks;
  spec.launcher.clear();
  return spec;
}

}  // namespace

int run_shell(const fs::path& attempt_directory) {
  const JobSpec own = job_spec_from_json(parse_json(read_file(attempt_directory / "job.json")));
  if (own.container) require_way_in(*own.container);
  const TemporaryFolder room(own.job_directory / "shell");  // as an attempt to the program
  const Terminal terminal(room.path());
  const JobSpec spec = with_shell(own, terminal);
  ResolvedJob job = resolve_or_throw(spec);
  const AttemptFiles files{room.path()};
  prepare_files(spec, job, files);
  const Secrets secrets = read_secrets(secrets_file(spec.run_directory), spec.secrets);
  Command command = make_command(spec, job, files, {}, secrets);
  command.standard_output.clear();  // what a runtime says, until the shell is there
  command.standard_error.clear();
  return terminal.attach(start(command)).code;
}

}  // namespace dlflow
