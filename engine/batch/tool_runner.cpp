#include "engine/batch/tool_runner.h"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/plan/inherited.h"

namespace dlflow {
namespace {

using std::chrono::milliseconds;

/// "sbatch: error: Batch job submission failed: X" -> "X"; empty if there is no such word.
std::string_view behind_error(std::string_view line) {
  constexpr std::array<std::string_view, 4> kBefore = {
      "error: ", "fatal: ", "failed: ", "Unable to run job: "};
  std::string_view rest;
  for (const std::string_view word : kBefore) {
    if (const size_t at = line.find(word); at != line.npos) {
      rest = line = line.substr(at + word.size());
    }
  }
  return trim(rest);
}

std::string times(int tries) {
  return tries == 1 ? "" : " (tried " + std::to_string(tries) + " times)";
}

Output log_end(const std::string& tool, Output output) {
  log(LogLevel::Debug, tool + " ended with " + std::to_string(output.status.code) + ", printed " +
                           std::to_string(output.text.size()) + " bytes");
  return output;
}

}  // namespace

std::vector<std::string> submission_environment(std::span<const std::string> environment,
                                                std::span<const std::string_view> own) {
  // For the batch script and for dlflow on the node; the supervisor gives programs their own
  // variables.
  constexpr std::string_view kKept[] = {"LANG=", "LC_",
                                        "BASH_ENV=", "XDG_CACHE_HOME=", "DLFLOW_HOME="};
  std::vector<std::string> entries;
  for (const std::string& entry : environment) {
    const bool is_planned = provider_of(entry.substr(0, entry.find('='))) == Provider::Plan;
    if (is_planned || starts_with_any(entry, kKept) || starts_with_any(entry, own)) {
      entries.push_back(entry);
    }
  }
  return entries;
}

SubmitAnswer submit_answer(const std::string& tool, const Output& output,
                           const std::optional<std::string>& id, bool is_transient,
                           std::span<const std::string_view> too_many, milliseconds time_limit) {
  const std::string why = failure(tool, output, time_limit);
  if (is_transient) return Unclear{why};
  if (output.status.code == 0) {
    if (id) return Accepted{*id};
    return Unclear{tool + " printed no job id: " + shell_quote(trim(output.text).substr(0, 200))};
  }
  if (id) return Unclear{why + ", but printed job id " + *id};
  return Refused{why, contains_any(output.errors, too_many)};
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return text.starts_with(word); });
}

bool contains_any(std::string_view text, std::span<const std::string_view> phrases) {
  return std::any_of(phrases.begin(), phrases.end(),
                     [text](std::string_view phrase) { return text.find(phrase) != text.npos; });
}

uint64_t memory_from(std::string_view text) {
  constexpr std::string_view kUnits = "BKMGTP";
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0) || value > 1e15) return 0;
  const std::string_view unit = text.substr(size_t(stop - text.data()));
  const size_t power = unit.empty() ? 0 : kUnits.find(unit[0]);
  if (power == kUnits.npos) return 0;
  const double bytes = value * double(uint64_t{1} << (10 * power));
  return bytes < 0x1p62 ? uint64_t(bytes) : 0;
}

std::string errors_of(std::string_view standard_error) {
  std::vector<std::string> errors;
  std::vector<std::string> lines;
  for (const std::string& line : split(standard_error, '\n')) {
    const std::string_view error = behind_error(line);
    if (!error.empty()) errors.emplace_back(error);
    if (!trim(line).empty()) lines.emplace_back(trim(line));
  }
  std::vector<std::string>& chosen = errors.empty() ? lines : errors;
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return join(chosen, "; ");
}

std::string failure(std::string_view tool, const Output& output, milliseconds time_limit) {
  const std::string name(tool);
  std::string errors = errors_of(output.errors);
  if (output.timed_out) {
    const int64_t ms = time_limit.count();
    const std::string limit =
        ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
    return name + " did not answer within " + limit + (errors.empty() ? "" : ": " + errors);
  }
  if (output.status.signal != 0) {
    return name + " was killed by signal " + std::to_string(output.status.signal);
  }
  if (!errors.empty()) return errors;
  return name + " ended with exit status " + std::to_string(output.status.code);
}

bool is_at_work(BatchSystem& system, const JobIdentity& ours) {
  try {
    const std::vector<BatchJob> queue = system.queue();
    return std::any_of(queue.begin(), queue.end(), [&ours](const BatchJob& job) {
      return ours.is(job) && !is_over(job.state);
    });
  } catch (const Error&) {
    return true;
  }
}

JobAnswer cancel_in_parts(
    std::span<const std::string> ids,
    const std::function<JobAnswer(std::span<const std::string>)>& cancel_some) {
  constexpr size_t kAtOnce = 1000;
  JobAnswer answer;
  for (; !ids.empty(); ids = ids.subspan(std::min(kAtOnce, ids.size()))) {
    JobAnswer next = cancel_some(ids.first(std::min(kAtOnce, ids.size())));
    if (next.kind > answer.kind) answer = std::move(next);
  }
  return answer;
}

ToolRunner::ToolRunner(ToolOptions options, std::vector<std::string> environment,
                       IsTransient is_transient)
    : options_(std::move(options)),
      environment_(std::move(environment)),
      is_transient_(is_transient) {
  if (!options_.sleep) {
    options_.sleep = [](milliseconds pause) { std::this_thread::sleep_for(pause); };
  }
}

Output ToolRunner::run_once(const std::vector<std::string>& argv) const {
  return submit(argv, "", environment_);
}

Output ToolRunner::run_if_there(const std::vector<std::string>& argv) const {
  try {
    return run_once(argv);
  } catch (const Error&) {
    return {};  // no such program
  }
}

Output ToolRunner::submit(const std::vector<std::string>& argv, const std::string& input,
                          const std::vector<std::string>& environment) const {
  log(LogLevel::Info, shell_line(argv) + (input.empty() ? "" : " <<'END'\n" + input + "END"));
  return log_end(argv.front(),
                 run({.argv = argv, .environment = environment, .dies_with_parent = true},
                     {.input = input, .time_limit = options_.time_limit, .collect_errors = true}));
}

Output ToolRunner::ask(const std::vector<std::string>& argv) const {
  milliseconds pause = options_.first_pause;
  for (int attempt = 1;; ++attempt) {
    Output output = run_once(argv);
    if (!is_transient_(output)) return output;
    if (attempt >= options_.tries) {
      throw Error(Errc::Unavailable, failure(argv.front(), output) + times(attempt));
    }
    log(LogLevel::Warning,
        failure(argv.front(), output) + "; again in " + std::to_string(pause.count()) + " ms");
    options_.sleep(pause);
    pause *= 2;
  }
}

Output ToolRunner::request(const std::vector<std::string>& argv) const {
  if (!options_.outlives_sigterm) return ask(argv);
  std::vector<std::string> deaf = {"sh", "-c", "trap '' TERM; exec \"$@\"", "sh"};
  deaf.insert(deaf.end(), argv.begin(), argv.end());
  return ask(deaf);
}

std::string ToolRunner::answer(const std::vector<std::string>& argv,
                               std::string_view system) const {
  Output output = ask(argv);
  if (output.status.code != 0) {
    throw Error(Errc::Unavailable, argv.front() + " failed: " + failure(argv.front(), output) +
                                       "; run dlflow where " + std::string(system) +
                                       "'s tools work: on a login node");
  }
  return std::move(output.text);
}

std::string ToolRunner::failure(std::string_view tool, const Output& output) const {
  return dlflow::failure(tool, output, options_.time_limit);
}

}  // namespace dlflow
