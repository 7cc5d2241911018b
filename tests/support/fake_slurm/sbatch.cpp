#include <csignal>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/options.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

namespace fs = std::filesystem;

/// A mistake that sbatch itself detects; the text follows "sbatch: error: ".
struct BadOption {
  std::string text;
};

int number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1) {
    throw BadOption{"Invalid numeric value \"" + text + "\" for --" + option + "."};
  }
  return int(value);
}

BadOption invalid(const std::string& option) { return {"Invalid --" + option + " specification"}; }

/// Parses 1500M into MB.
int64_t megabytes(const std::string& option, const std::string& text) {
  if (!text.ends_with('M')) throw invalid(option);
  return number(option, text.substr(0, text.size() - 1));
}

/// Parses B:USR1@SECONDS.
void set_signal(const std::string& text, Request& request) {
  const std::string known = "B:USR1@";
  if (!text.starts_with(known)) throw invalid("signal");
  request.signal = SIGUSR1;
  request.signal_lead = number("signal", text.substr(known.size()));
}

/// The options that dlflow and the tests' profiles use. SLURM 20.11, the oldest version in use,
/// supports all of them.
const std::set<std::string> kOptions = {"account",
                                        "array",
                                        "chdir",
                                        "comment",
                                        "constraint",
                                        "cpus-per-task",
                                        "dependency",
                                        "exclude",
                                        "exclusive",
                                        "export",
                                        "gpu-bind",
                                        "gpus-per-task",
                                        "gres",
                                        "job-name",
                                        "kill-on-invalid-dep",
                                        "licenses",
                                        "mem",
                                        "mem-per-cpu",
                                        "no-requeue",
                                        "nodes",
                                        "ntasks",
                                        "ntasks-per-node",
                                        "open-mode",
                                        "output",
                                        "parsable",
                                        "partition",
                                        "qos",
                                        "requeue",
                                        "reservation",
                                        "signal",
                                        "time"};

/// The field that stores an option's text unchanged.
std::string* text_field(const std::string& option, Request& r) {
  const std::pair<const char*, std::string*> fields[] = {
      {"job-name", &r.name},        {"chdir", &r.directory}, {"output", &r.output},
      {"partition", &r.partition},  {"account", &r.account}, {"array", &r.array},
      {"dependency", &r.dependency}};
  for (const auto& [name, field] : fields) {
    if (option == name) return field;
  }
  return nullptr;
}

int* number_field(const std::string& option, Request& r) {
  const std::pair<const char*, int*> fields[] = {{"nodes", &r.nodes},
                                                 {"ntasks", &r.tasks},
                                                 {"ntasks-per-node", &r.tasks_per_node},
                                                 {"cpus-per-task", &r.cpus_per_task},
                                                 {"time", &r.minutes}};
  for (const auto& [name, field] : fields) {
    if (option == name) return field;
  }
  return nullptr;
}

void apply(const std::string& option, const std::string& value, Request& r) {
  if (std::string* text = text_field(option, r)) {
    *text = value;
  } else if (int* count = number_field(option, r)) {
    *count = number(option, value);
  } else if (option == "mem") {
    r.memory_mb = megabytes(option, value);
  } else if (option == "signal") {
    set_signal(value, r);
  } else if (option == "requeue" || option == "no-requeue") {
    r.requeue = option == "requeue";
  } else if (option == "open-mode") {
    r.append = value == "append";
  } else if (option == "kill-on-invalid-dep") {
    r.kill_on_invalid_dependency = value == "yes";
  }
}

/// The options in the #SBATCH lines above the first command: one per line, as dlflow writes them,
/// with a value that may be quoted with backslashes.
std::vector<std::string> script_options(const std::string& script) {
  std::vector<std::string> words = {"sbatch"};
  for (const std::string& line : split(script, '\n')) {
    if (!line.starts_with('#') && !line.empty()) break;
    if (!line.starts_with("#SBATCH ")) continue;
    std::string& word = words.emplace_back();
    bool quoted = false;
    for (size_t at = 8; at < line.size(); ++at) {
      if (line[at] == '"') {
        quoted = !quoted;
      } else if (line[at] == ' ' && !quoted) {
        throw BadOption{"Invalid directive found in batch script: " + line.substr(at + 1)};
      } else {
        if (line[at] == '\\') ++at;
        word += line[at];
      }
    }
  }
  return words;
}

/// Stores script and environment until the job starts.
std::string store(const fs::path& folder, const std::string& script) {
  make_directories(folder / "scripts");
  const auto count = std::distance(fs::directory_iterator(folder / "scripts"), {});
  const std::string stored = "scripts/" + std::to_string(count);
  make_directories(folder / stored);
  write_file_atomic(folder / stored / "slurm_script", script);
  fs::permissions(folder / stored / "slurm_script", fs::perms::owner_all);
  write_file_atomic(folder / stored / "environment", Json(current_environment()).dump());
  return stored;
}

int submit_to(Call& call, Request request) {
  try {
    call.request();
    if (auto late = call.take_late()) {
      late->request = std::move(request);
      call.world().late.push_back(std::move(*late));
      call.reply();
    }
    const JobId id = submit(call.world(), std::move(request));
    look_again(call.world());
    call.reply();
    call.out = std::to_string(id) + "\n";
    return 0;
  } catch (const Unreachable& error) {
    return call.fail("Batch job submission failed: " + error.text);
  } catch (const Refused& refused) {
    if (!refused.before.empty()) call.fail(refused.before);
    return call.fail("Batch job submission failed: " + refused.text);
  }
}

}  // namespace

/// sbatch --parsable [OPTION…], with the script on standard input.
int sbatch(Call& call) {
  const std::string script(std::istreambuf_iterator<char>(std::cin), {});
  Request request;
  request.name = "sbatch";
  request.directory = fs::current_path().string();
  try {
    for (const auto& argv : {script_options(script), call.argv()}) {
      const auto words = parse_words(argv, kOptions, call.err);
      if (!words) return 255;
      for (const auto& [option, value] : words->options) apply(option, value, request);
    }
    request.stored = store(call.folder(), script);
    return submit_to(call, std::move(request));
  } catch (const BadOption& bad) {
    return call.fail(bad.text);
  }
}

}  // namespace dlflow::fake_slurm
