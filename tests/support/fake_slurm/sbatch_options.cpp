#include "tests/support/fake_slurm/sbatch_options.h"

#include <getopt.h>

#include <csignal>

#include "base/text.h"
#include "tests/support/fake_slurm/format.h"

namespace dlflow::fake_slurm {
namespace {

struct Versioned {
  Option option;
  int since = 0;
  int until = 9999;  ///< the last version that has it
};

// clang-format off
constexpr Versioned kOptions[] = {
    {{"account", 'A', required_argument}},
    {{"acctg-freq", 0, required_argument}},
    {{"array", 'a', required_argument}},
    {{"autocomplete", 0, required_argument}, 2302},
    {{"batch", 0, required_argument}},
    {{"bb", 0, required_argument}},
    {{"bbf", 0, required_argument}},
    {{"begin", 'b', required_argument}},
    {{"chdir", 'D', required_argument}},
    {{"cluster", 0, required_argument}},
    {{"cluster-constraint", 0, required_argument}},
    {{"clusters", 'M', required_argument}},
    {{"comment", 0, required_argument}},
    {{"constraint", 'C', required_argument}},
    {{"container", 0, required_argument}, 2108},
    {{"container-id", 0, required_argument}, 2302},
    {{"context", 0, required_argument}, 2108},
    {{"contiguous", 0, no_argument}},
    {{"core-spec", 'S', required_argument}},
    {{"cores-per-socket", 0, required_argument}},
    {{"cpu-freq", 0, required_argument}},
    {{"cpus-per-gpu", 0, required_argument}},
    {{"cpus-per-task", 'c', required_argument}},
    {{"deadline", 0, required_argument}},
    {{"delay-boot", 0, required_argument}},
    {{"dependency", 'd', required_argument}},
    {{"distribution", 'm', required_argument}},
    {{"error", 'e', required_argument}},
    {{"exclude", 'x', required_argument}},
    {{"exclusive", 0, optional_argument}},
    {{"export", 0, required_argument}},
    {{"export-file", 0, required_argument}},
    {{"extra", 0, required_argument}, 2302},
    {{"extra-node-info", 'B', required_argument}},
    {{"get-user-env", 0, optional_argument}},
    {{"gid", 0, required_argument}},
    {{"gpu-bind", 0, required_argument}},
    {{"gpu-freq", 0, required_argument}},
    {{"gpus", 'G', required_argument}},
    {{"gpus-per-node", 0, required_argument}},
    {{"gpus-per-socket", 0, required_argument}},
    {{"gpus-per-task", 0, required_argument}},
    {{"gres", 0, required_argument}},
    {{"gres-flags", 0, required_argument}},
    {{"help", 'h', no_argument}},
    {{"hint", 0, required_argument}},
    {{"hold", 'H', no_argument}},
    {{"ignore-pbs", 0, no_argument}},
    {{"input", 'i', required_argument}},
    {{"job-name", 'J', required_argument}},
    {{"kill-on-invalid-dep", 0, required_argument}},
    {{"licenses", 'L', required_argument}},
    {{"mail-type", 0, required_argument}},
    {{"mail-user", 0, required_argument}},
    {{"mcs-label", 0, required_argument}},
    {{"mem", 0, required_argument}},
    {{"mem-bind", 0, required_argument}},
    {{"mem-per-cpu", 0, required_argument}},
    {{"mem-per-gpu", 0, required_argument}},
    {{"mincpus", 0, required_argument}},
    {{"network", 0, required_argument}},
    {{"nice", 0, optional_argument}},
    {{"no-kill", 'k', optional_argument}},
    {{"no-requeue", 0, no_argument}},
    {{"nodefile", 'F', required_argument}},
    {{"nodelist", 'w', required_argument}},
    {{"nodes", 'N', required_argument}},
    {{"ntasks", 'n', required_argument}},
    {{"ntasks-per-core", 0, required_argument}},
    {{"ntasks-per-gpu", 0, required_argument}},
    {{"ntasks-per-node", 0, required_argument}},
    {{"ntasks-per-socket", 0, required_argument}},
    {{"ntasks-per-tres", 0, required_argument}},
    {{"open-mode", 0, required_argument}},
    {{"output", 'o', required_argument}},
    {{"overcommit", 'O', no_argument}},
    {{"oversubscribe", 's', no_argument}},
    {{"parsable", 0, no_argument}},
    {{"partition", 'p', required_argument}},
    {{"power", 0, required_argument}, 0, 2311},
    {{"prefer", 0, required_argument}, 2205},
    {{"priority", 0, required_argument}},
    {{"profile", 0, required_argument}},
    {{"propagate", 0, optional_argument}},
    {{"qos", 'q', required_argument}},
    {{"quiet", 'Q', no_argument}},
    {{"reboot", 0, no_argument}},
    {{"requeue", 0, no_argument}},
    {{"reservation", 0, required_argument}},
    {{"resv-ports", 0, optional_argument}, 2405},
    {{"segment", 0, required_argument}, 2405},
    {{"signal", 0, required_argument}},
    {{"sockets-per-node", 0, required_argument}},
    {{"spread-job", 0, no_argument}},
    {{"stepmgr", 0, no_argument}, 2405},
    {{"switches", 0, required_argument}},
    {{"tasks-per-node", 0, required_argument}},
    {{"test-only", 0, no_argument}},
    {{"thread-spec", 0, required_argument}},
    {{"threads-per-core", 0, required_argument}},
    {{"time", 't', required_argument}},
    {{"time-min", 0, required_argument}},
    {{"tmp", 0, required_argument}},
    {{"tres-bind", 0, required_argument}, 2311},
    {{"tres-per-task", 0, required_argument}, 2302},
    {{"uid", 0, required_argument}},
    {{"usage", 0, no_argument}},
    {{"use-min-nodes", 0, no_argument}},
    {{"verbose", 'v', no_argument}},
    {{"version", 'V', no_argument}},
    {{"wait", 'W', no_argument}},
    {{"wait-all-nodes", 0, required_argument}},
    {{"wckey", 0, required_argument}},
    {{"wrap", 0, required_argument}},
};
// clang-format on

BadOption invalid(const std::string& option) { return {"Invalid --" + option + " specification"}; }

int number(const std::string& option, const std::string& text, int least = 1) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < least) {
    throw BadOption{"Invalid numeric value \"" + text + "\" for --" + option + ".", 1};
  }
  return int(value);
}

/// 2, 2-4: the least.
int node_count(const std::string& text) {
  const size_t dash = text.find('-');
  const int least = number("nodes", text.substr(0, dash));
  if (dash == std::string::npos) return least;
  const std::string most = text.substr(dash + 1);
  if (number("nodes", most) < least) {
    throw BadOption{"Maximum node count " + most + " is less than minimum node count " +
                    std::to_string(least)};
  }
  return least;
}

/// 2G, 1500M, 1500, 2T in MB.
int64_t megabytes(const std::string& option, const std::string& text) {
  char* unit = nullptr;
  const long long value = std::strtoll(text.c_str(), &unit, 10);
  const std::string word = unit;
  if (unit == text.c_str() || value < 0) throw invalid(option);
  if (word.empty() || word == "M" || word == "MB" || word == "m") return value;
  if (word == "K" || word == "KB" || word == "k") return (value + 1023) / 1024;
  if (word == "G" || word == "GB" || word == "g") return value * 1024;
  if (word == "T" || word == "TB" || word == "t") return value * 1024 * 1024;
  throw invalid(option);
}

/// gpu:2, gpu:a100:2, gpu; for --gpus also 2 and a100:2.
int gpu_count(const std::string& text) {
  int count = 0;
  for (const std::string& part : split(text, ',')) {
    const std::string last = part.substr(part.rfind(':') + 1);
    const bool counted = !last.empty() && last.find_first_not_of("0123456789") == last.npos;
    if (part.starts_with("gpu") || counted) count += counted ? std::atoi(last.c_str()) : 1;
  }
  return count;
}

/// [R][B]:SIGNAL[@SECONDS]
void set_signal(const std::string& text, Request& request) {
  std::string rest = text;
  if (const size_t colon = rest.find(':'); colon != std::string::npos) {
    request.signal_batch_only = rest.substr(0, colon).find('B') != std::string::npos;
    rest.erase(0, colon + 1);
  }
  request.signal_lead = 60;
  if (const size_t at = rest.find('@'); at != std::string::npos) {
    request.signal_lead = std::atoi(rest.c_str() + at + 1);
    rest.resize(at);
  }
  request.signal = signal_number(rest);
  if (request.signal == 0) throw invalid("signal");
}

void set_begin(const std::string& text, Seconds now, Request& request) {
  const auto begin = parse_time(text, now);
  if (!begin) {
    throw BadOption{invalid("begin").text, 255, "Invalid time specification (pos=0): " + text};
  }
  request.begin = *begin;
}

void set_time(const std::string& text, Request& request) {
  const auto minutes = parse_minutes(text);
  if (!minutes) throw invalid("time");
  request.minutes = *minutes;
}

void require_one_of(const std::string& option, const std::string& value,
                    const std::vector<std::string>& choices) {
  for (const std::string& choice : choices) {
    if (value == choice) return;
  }
  throw invalid(option);
}

/// Options that are kept as they are.
std::string* text_field(const std::string& option, Request& r) {
  const std::pair<const char*, std::string*> fields[] = {{"job-name", &r.name},
                                                         {"chdir", &r.directory},
                                                         {"output", &r.output},
                                                         {"error", &r.error},
                                                         {"partition", &r.partition},
                                                         {"account", &r.account},
                                                         {"qos", &r.qos},
                                                         {"constraint", &r.constraint},
                                                         {"array", &r.array},
                                                         {"reservation", &r.reservation},
                                                         {"dependency", &r.dependency},
                                                         {"comment", &r.comment},
                                                         {"wckey", &r.wckey},
                                                         {"mail-user", &r.mail_user}};
  for (const auto& [name, field] : fields) {
    if (option == name) return field;
  }
  return nullptr;
}

void apply_one(const std::string& option, const std::string& value, Seconds now, Request& r) {
  if (std::string* field = text_field(option, r)) {
    *field = value;
  } else if (option == "nodes") {
    r.nodes = node_count(value);
  } else if (option == "ntasks") {
    r.tasks = number(option, value);
  } else if (option == "ntasks-per-node" || option == "tasks-per-node") {
    r.tasks_per_node = number("ntasks-per-node", value);
  } else if (option == "cpus-per-task") {
    r.cpus_per_task = number(option, value);
  } else if (option == "mem") {
    r.memory_mb = megabytes(option, value);
  } else if (option == "mem-per-cpu") {
    r.memory_per_cpu_mb = megabytes(option, value);
  } else if (option == "gres") {
    r.gres = value;
    r.gpus_per_node = gpu_count(value);
  } else if (option == "gpus-per-node") {
    r.gpus_per_node = gpu_count(value);
  } else if (option == "gpus-per-task") {
    r.gpus_per_task = gpu_count(value);
  } else if (option == "gpus") {
    r.gpus = gpu_count(value);
  } else if (option == "time") {
    set_time(value, r);
  } else if (option == "begin") {
    set_begin(value, now, r);
  } else if (option == "signal") {
    set_signal(value, r);
  } else if (option == "exclusive") {
    if (!value.empty()) require_one_of(option, value, {"user", "mcs"});
    r.exclusive = value.empty();
  } else if (option == "requeue" || option == "no-requeue") {
    r.requeue = option == "requeue";
  } else if (option == "open-mode") {
    require_one_of(option, value, {"append", "truncate", "a", "t"});
    r.append = value[0] == 'a';
  } else if (option == "kill-on-invalid-dep") {
    require_one_of(option, value, {"yes", "no"});
    r.kill_on_invalid_dependency = value == "yes";
  } else if (option == "hold") {
    r.held = true;
  } else if (option == "nice") {
    r.nice = value.empty() ? 100 : std::atoi(value.c_str());
  } else if (option == "mail-type") {
    for (const std::string& type : split(value, ',')) {
      require_one_of(
          option, type,
          {"NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "INVALID_DEPEND", "STAGE_OUT",
           "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"});
    }
    r.mail_type = value;
  }
}

}  // namespace

int signal_number(const std::string& word) {
  constexpr std::pair<const char*, int> kSignals[] = {
      {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},
      {"KILL", SIGKILL}, {"ALRM", SIGALRM}, {"TERM", SIGTERM}, {"USR1", SIGUSR1},
      {"USR2", SIGUSR2}, {"URG", SIGURG},   {"CONT", SIGCONT}, {"STOP", SIGSTOP},
      {"TSTP", SIGTSTP}, {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU}};
  for (const auto& [name, value] : kSignals) {
    if (word == name || word == std::string("SIG") + name) return value;
  }
  const int value = std::atoi(word.c_str());
  return value > 0 && value < SIGRTMIN ? value : 0;
}

std::vector<Option> sbatch_options(int version) {
  std::vector<Option> options;
  for (const Versioned& known : kOptions) {
    if (version >= known.since && version <= known.until) options.push_back(known.option);
  }
  return options;
}

void apply(const Words& words, Seconds now, Request& request) {
  for (const auto& [option, value] : words.options) apply_one(option, value, now, request);
}

std::vector<std::string> script_options(const std::string& script) {
  std::vector<std::string> words = {"sbatch"};
  for (const std::string& line : split(script, '\n')) {
    const std::string_view text = trim(line);
    if (!text.empty() && text.front() != '#') break;  // the first command ends them
    if (!line.starts_with("#SBATCH")) continue;
    std::string word;
    char quote = 0;
    bool begun = false;
    for (const char c : line.substr(7)) {
      const bool space = quote == 0 && (c == ' ' || c == '\t');
      if (space || (quote == 0 && c == '#' && !begun)) {
        if (begun) words.push_back(word);
        word.clear();
        begun = false;
        if (!space) break;  // a comment behind the options
      } else if (quote == 0 && (c == '"' || c == '\'')) {
        quote = c;
        begun = true;
      } else if (c == quote) {
        quote = 0;
      } else {
        word += c;
        begun = true;
      }
    }
    if (begun) words.push_back(word);
  }
  return words;
}

}  // namespace dlflow::fake_slurm
