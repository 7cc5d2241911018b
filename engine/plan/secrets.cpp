#include "engine/plan/secrets.h"

#include <optional>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/model/profile.h"
#include "engine/plan/layout.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The steps with secrets that have a job that may run, in file order.
std::set<uint32_t> steps_with_secrets(const Plan& plan,
                                      const std::function<bool(uint32_t job)>& may_run) {
  std::set<uint32_t> steps;
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    const uint32_t step = plan.jobs[job].step;
    if (secrets_of(plan, plan.workflow.steps[step]).empty() || steps.contains(step)) continue;
    if (may_run(job)) steps.insert(step);
  }
  return steps;
}

class Lookup {
 public:
  /// `sources` must outlive it.
  explicit Lookup(const SecretSources& sources) : sources_(sources) {}

  std::optional<std::string> find(const std::string& name) {
    for (const std::string& entry : sources_.environment) {
      if (!entry.starts_with(name + "=")) continue;
      std::string value = entry.substr(name.size() + 1);
      check_secret(name, value, "$" + name);
      return value;
    }
    for (const Secrets* secrets : {&own(), &sources_.run}) {
      if (const auto found = secrets->find(name); found != secrets->end()) return found->second;
    }
    return std::nullopt;
  }

 private:
  const Secrets& own() {
    if (own_) return *own_;
    own_.emplace();
    if (sources_.own_file.empty()) return *own_;
    if (const auto text = read_private_file(sources_.own_file)) {
      own_ = parse_secrets(*text, sources_.own_file);
    }
    return *own_;
  }

  const SecretSources& sources_;
  std::optional<Secrets> own_;
};

[[noreturn]] void throw_missing(const Workflow& workflow, const Step& step,
                                const std::vector<std::string>& names, const fs::path& own_file) {
  const bool one = names.size() == 1;
  std::string message = "step '" + step.name + "' needs the secret" + (one ? " " : "s ") +
                        join(names, ", ") + ", which " + (one ? "has" : "have") + " no value: ";
  message += "`export " + names.front() + "=…` first";
  if (!own_file.empty()) {
    message += ", or add a line " + names.front() + "=… to " + own_file.string() + " (chmod 600)";
  }
  // The step's own location if the secret comes from `inherit:` of the profile.
  throw_at(workflow, step.location_of("secrets"), message);
}

[[noreturn]] void throw_missing_webhook(const Workflow& workflow, const fs::path& own_file) {
  const std::string& secret = workflow.notify.webhook;
  throw_at(workflow, workflow.notify.location,
           "notify.webhook is the secret " + secret + ", which has no value: `export " + secret +
               "=https://…` first" +
               (own_file.empty() ? ""
                                 : ", or add a line " + secret + "=https://… to " +
                                       own_file.string() + " (chmod 600)"));
}

bool any_may_run(const Plan& plan, const std::function<bool(uint32_t job)>& may_run) {
  for (uint32_t job = 0; job < plan.jobs.size(); ++job) {
    if (may_run(job)) return true;
  }
  return false;
}

bool is_web_address(std::string_view text) {
  const bool has_scheme = text.starts_with("https://") || text.starts_with("http://");
  return has_scheme && text.find_first_of("\"\\ \t\r\n") == text.npos;
}

}  // namespace

fs::path secrets_file(const fs::path& run_directory) { return run_directory / "secrets"; }

SecretSources secret_sources(const fs::path& run_directory) {
  SecretSources sources{.environment = current_environment()};
  if (const auto folder = config_folder()) sources.own_file = *folder / "secrets";
  if (run_directory.empty()) return sources;
  const fs::path file = secrets_file(run_directory);
  if (const auto text = read_file_if_exists(file)) sources.run = parse_secrets(*text, file);
  return sources;
}

Secrets find_secrets(const Plan& plan, const std::function<bool(uint32_t job)>& may_run,
                     const SecretSources& sources) {
  Lookup lookup(sources);
  Secrets secrets;
  for (const uint32_t number : steps_with_secrets(plan, may_run)) {
    const Step& step = plan.workflow.steps[number];
    std::vector<std::string> missing;
    for (const std::string& name : secrets_of(plan, step)) {
      if (auto value = lookup.find(name)) {
        secrets.emplace(name, std::move(*value));
      } else {
        missing.push_back(name);
      }
    }
    if (!missing.empty()) throw_missing(plan.workflow, step, missing, sources.own_file);
  }
  if (const std::string& webhook = plan.workflow.notify.webhook; !webhook.empty()) {
    const auto address = lookup.find(webhook);
    if (!address && any_may_run(plan, may_run)) {
      throw_missing_webhook(plan.workflow, sources.own_file);
    }
    if (address && !is_web_address(*address)) {
      throw_at(plan.workflow, plan.workflow.notify.location,
               "the secret " + webhook +
                   " of notify.webhook is not an address; it must begin with https://");
    }
    if (address) secrets.emplace(webhook, *address);
  }
  return secrets;
}

void remove_secrets(const fs::path& run_directory) {
  std::error_code none;
  fs::remove(secrets_file(run_directory), none);
}

}  // namespace dlflow
