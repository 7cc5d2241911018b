#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <openssl/opensslv.h>
#include <poll.h>
#include <sqlite3.h>
#include <zlib.h>

#include <CLI/Version.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/text.h"
#include "base/version.h"
#include "engine/backend/local_launcher.h"
#include "engine/batch/job_exec.h"
#include "engine/cli/commands.h"
#include "engine/cli/complete.h"
#include "engine/cli/error_json.h"
#include "engine/cli/help.h"
#include "engine/cli/host.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/container/container_run.h"
#include "engine/plan/layout.h"
#include "engine/plan/loading.h"
#include "engine/ranks/rank_exec.h"
#include "engine/run/batch_systems.h"
#include "engine/run/chain/from_job.h"
#include "engine/run/notify/notify.h"
#include "engine/supervisor/shell.h"
#include "steps/checkpoint/checkpoint_step.h"
#include "steps/stage/stage.h"
#include "steps/stage_out/stage_out.h"

/// dlflow: the command line, and the programs in the same file: the launcher of the local back end,
/// and the steps `stage`, `stage-out` and `checkpoint`.
namespace dlflow {
namespace {

constexpr const char* kAbout =
    "Deep-learning pipelines on HPC clusters: one YAML file, one profile per cluster, no daemon.";

constexpr const char* kFooter =
    "Examples:\n"
    "  dlflow run workflows/fashion-mnist.yaml\n"
    "  dlflow status\n"
    "  dlflow logs fashion-mnist-7f3a91c0 train\n"
    "  dlflow help resubmit\n"
    "\n"
    "Exit status: 0 done, 1 a step failed, 2 the input is wrong,\n"
    "3 the back end refused, 130 interrupted.";

/// Adds all verbs, in the order and under the headings of `dlflow --help`.
void add_verbs(CLI::App& app, Session& session) {
  using Add = void (*)(CLI::App&, Session&);
  const std::pair<const char*, std::vector<Add>> groups[] = {
      {"Run and repair",
       {add_init, add_validate, add_plan, add_run, add_resubmit, add_cancel, add_shell, add_rm}},
      {"Look", {add_status, add_logs, add_explain, add_graph, add_results, add_report}},
      {"Data and models", {add_data, add_model, add_predict, add_cache}},
      {"Share and operate",
       {add_pack, add_unpack, add_sync, add_profile, add_doctor, add_schema, add_completion,
        add_man, add_help}},
  };
  for (const auto& [group, verbs] : groups) {
    app.group(group);  // inherited by its verbs
    for (const Add add : verbs) add(app, session);
  }
}

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

Json libraries() {
  return {{"cli11", CLI11_VERSION},
          {"fmt", dotted(FMT_VERSION / 10'000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"glibc", ::gnu_get_libc_version()},
          {"nlohmann-json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                   NLOHMANN_JSON_VERSION_PATCH)},
          {"openssl", OPENSSL_VERSION_STR},
          {"sqlite", SQLITE_VERSION},
          {"zlib", ZLIB_VERSION}};
}

/// The text of `dlflow --version`. With `as_json` it also lists the build, the linked libraries and
/// the binary interfaces between the programs. docs/user/json.md describes the fields.
std::string version_text(bool as_json) {
  if (!as_json) return "dlflow " DLFLOW_VERSION;
  const Json version = {
      {"dlflow", DLFLOW_VERSION},
      {"build", {{"compiler", __VERSION__}}},
      {"libraries", libraries()},
      {"interfaces", {{"gpu", DLFLOW_GPU_ABI}, {"mpi", DLFLOW_MPI_ABI}, {"runtime", DLFLOW_ABI}}}};
  return version.dump(2);
}

void add_common_options(CLI::App& app, Session& session, bool as_json) {
  app.add_option_function<std::string>(
         "--color",
         [&session](const std::string& word) {
           session.color = word == "always"  ? ColorChoice::Always
                           : word == "never" ? ColorChoice::Never
                                             : ColorChoice::Auto;
         },
         "colours (also: NO_COLOR=1)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_flag("-q,--quiet", session.quiet, "print results only");
  app.add_flag_function(
      "-v,--verbose",
      [&session](int64_t times) {
        session.verbose = true;
        show_log(times > 1 ? LogLevel::Debug : LogLevel::Info);
      },
      "show the commands that are run; -vv: how each ended, and every change");
  app.set_version_flag("--version", version_text(as_json), "print the version; with --json, more");
  add_host_options(app, session);
  app.fallthrough();  // common options may follow the verb
}

/// Whether all output was written, or its reader is gone.
bool is_written(FILE* stream) {
  if (std::fflush(stream) == 0 && std::ferror(stream) == 0) return true;
  pollfd reader = {::fileno(stream), 0, 0};
  if (::poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0) return true;
  std::fprintf(stderr, "error: cannot write to standard output; is the disk full?\n");
  return false;
}

int run_cli(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // the reader may end (`| head`); the run continues
  CLI::App app(kAbout, "dlflow");
  use_help_format(app);
  app.footer(kFooter);
  app.require_subcommand(1);
  Session session;
  const std::vector<std::string> words = with_new_verb({argv + 1, argv + argc});
  const bool as_json = std::ranges::find(words, "--json") != words.end();
  add_common_options(app, session, as_json);
  add_verbs(app, session);
  refuse_options_as_values(app);
  if (!words.empty() && words.front() == "complete") {
    complete(app, session, std::span(words).subspan(1));
    return kDone;
  }
  const auto refuse = [as_json](std::string text, const std::string& hint, int status) {
    if (std::error_code none; std::filesystem::current_path(none).empty()) {
      text += "; the current folder was removed, `cd` to another";
    }
    if (as_json) print_json(error_json(text, status));
    std::fprintf(stderr, "%s\n%s", escaped_lines(text).c_str(), hint.c_str());
    return status;
  };
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return is_written(stdout) ? session.status : kBadInput;
  } catch (const CLI::ParseError& error) {
    const CLI::App& command = chosen_command(app);
    const std::vector<std::string> left = app.remaining(true);
    const bool has_word =
        std::ranges::any_of(left, [](const std::string& word) { return !word.starts_with("-"); });
    const bool is_no_verb = has_word && !shown_verbs(command).empty();
    if (error.get_exit_code() == 0 && !is_no_verb) return app.exit(error);  // --help, --version
    const std::string mistake = mistake_in(app, error);
    if (mistake.empty()) {  // only its verb is missing
      std::fputs(command.help().c_str(), stdout);
      return is_written(stdout) ? kDone : kBadInput;
    }
    return refuse("error: " + mistake, help_hint(command) + "\n", kBadInput);
  } catch (const AlreadyReported& reported) {
    if (as_json) print_json(error_json(reported.text, kBadInput));
    return kBadInput;
  } catch (const UsageError& error) {
    return refuse(std::string("error: ") + error.what(), help_hint(chosen_command(app)) + "\n",
                  kBadInput);
  } catch (const LocatedError& error) {
    return refuse(error.what(), "", exit_status(error));
  } catch (const Error& error) {
    return refuse(std::string("error: ") + error.what(), "", exit_status(error));
  } catch (const std::exception& error) {  // thrown by a library
    return refuse("error: " + reason_of(error), "", kBadInput);
  }
}

/// Runs on a compute node, where standard error is the batch's log.
int job_exec_main(const char* batch_file, const char* batch, const char* task) {
  const auto number = [](const char* text) { return uint32_t(std::strtoul(text, nullptr, 10)); };
  try {
    const int status = job_exec(batch_file, number(batch), number(task), current_allocation());
    if (status == 0) submit_what_was_listed(batch_file, number(batch), number(task));
    tell_what_ended(batch_file, number(batch), number(task));
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", reason_of(error).c_str());
    return 1;
  }
}

/// The kinds of steps whose program is dlflow itself; tests/e2e/command_line_test.py compares them
/// with the table of kinds.
constexpr std::pair<const char*, int (*)()> kStepPrograms[] = {
    {"stage", steps::stage_main},
    {"stage-out", steps::stage_out_main},
    {"checkpoint", steps::checkpoint_main},
};

/// Programs that dlflow starts from its own file. They are not for users, and so not verbs.
int run_internal(int argc, char** argv, bool& found) {
  const auto is = [&](int index, const char* word) {
    return argc > index && std::strcmp(argv[index], word) == 0;
  };
  found = true;
  if (is(1, "local-launcher") && argc == 3) return local_launcher_main(std::atoi(argv[2]));
  if (is(1, "job-exec") && argc == 5) return job_exec_main(argv[2], argv[3], argv[4]);
  if (is(1, "notify-exec") && argc == 3) return notify_exec(argv[2]);
  if (is(1, "container-run") && argc == 3) return container_run(argv[2]);
  if (is(1, "container-exec") && argc == 3) return container_exec(argv[2]);
  if (is(1, "terminal") && argc == 4) return serve_terminal(argv[2], argv[3]);
  if (is(1, "load-check") && argc == 3) {
    return std::puts(loading_problem_of(argv[2], current_environment()).c_str()) < 0 ? 1 : 0;
  }
  if (is(1, "rank-exec") && argc > 3) return rank_exec(argv[2], argv + 3);
  if (is(1, "step") && argc == 3) {
    for (const auto& [kind, run_step] : kStepPrograms) {
      if (is(2, kind)) return run_step();
    }
  }
  found = false;
  return 0;
}

}  // namespace
}  // namespace dlflow

int main(int argc, char** argv) {
  bool found = false;
  const int status = dlflow::run_internal(argc, argv, found);
  return found ? status : dlflow::run_cli(argc, argv);
}
