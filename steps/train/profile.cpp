#include "steps/train/profile.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/sha256.h"
#include "base/text.h"
#include "runtime/train/profile.h"
#include "steps/ranks/launch.h"

namespace dlflow::steps {
namespace {

constexpr uint64_t kMostSteps = 1000;

/// The value behind `name`; removes both.
std::optional<std::string> take_argument(int& argc, char** argv, const std::string& name) {
  char** const found = std::find(argv, argv + argc, name);
  if (found == argv + argc) return std::nullopt;
  if (found + 1 == argv + argc) throw Error(Errc::InvalidInput, name + " lacks its value");
  const std::string value = found[1];
  std::copy(found + 2, argv + argc, found);
  argv[argc -= 2] = nullptr;
  return value;
}

/// "model name : ..." of /proc/cpuinfo.
std::string processor() {
  for (const std::string& line : split(read_file_if_exists("/proc/cpuinfo").value_or(""), '\n')) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "unknown";
}

/// Adds the share of a core that the quota of this process's cgroup leaves to each of its threads.
void add_quota(Json& result, int threads) {
  std::string text;
  for (const std::string& line :
       split(read_file_if_exists("/proc/self/cgroup").value_or(""), '\n')) {
    const std::vector<std::string> parts = split(line, ':');
    if (parts.size() != 3) continue;
    const auto value = [&](const std::string& name) {
      return read_file_if_exists("/sys/fs/cgroup" + name).value_or("");
    };
    const std::string folder = "/cpu" + parts[2] + "/cpu.cfs_";
    if (parts[1].empty()) text += value(parts[2] + "/cpu.max");
    if (parts[1].starts_with("cpu,") || parts[1] == "cpu") {
      text += value(folder + "quota_us") + " " + value(folder + "period_us");
    }
  }
  double quota = 0, period = 0;
  const bool is_limited = std::sscanf(text.c_str(), "%lf %lf", &quota, &period) == 2;
  if (!is_limited || quota <= 0 || quota >= period * threads) return;
  result["core_share"] = quota / period / threads;
  result["core_period_s"] = period * 1e-6;
}

bool is_same(const Json& one, const Json& other, std::initializer_list<const char*> keys) {
  return std::ranges::all_of(
      keys, [&](const char* key) { return one.value(key, Json()) == other.value(key, Json()); });
}

/// Throws if the file is not of the same model, measured on the same kind of processor.
void add_to(const std::filesystem::path& file, Json measurement) {
  if (const auto text = read_file_if_exists(file)) {
    Json old = parse_json(*text, kForeignJson);
    const auto about = {"format", "model", "compute", "processor", "cpus_per_rank", "source"};
    if (!old.is_object() || !is_same(old, measurement, about)) {
      throw Error(Errc::InvalidInput,
                  file.string() +
                      " is not a measurement of this model on this kind of processor; "
                      "remove it, or give another --measurement FILE");
    }
    for (const char* name : {"points", "network"}) {
      Json &newer = measurement[name], kept = Json::array();
      std::ranges::copy_if(old[name], std::back_inserter(kept), [&](const Json& entry) {
        return std::ranges::none_of(newer, [&](const Json& one) {
          return is_same(entry, one, {"ranks", "nodes", "mode"});
        });
      });
      kept.insert(kept.end(), newer.begin(), newer.end());
      newer = kept;
    }
  }
  if (file.has_parent_path()) make_output_folder(file.parent_path());
  write_output(file, measurement.dump(1) + "\n");
}

}  // namespace

std::optional<ProfileOptions> take_profile_options(int& argc, char** argv) {
  const auto steps = take_argument(argc, argv, "--profile-steps");
  if (!steps) return std::nullopt;
  const auto number = number_from<uint64_t>(*steps);
  if (!number || *number < 1 || *number > kMostSteps) {
    throw Error(Errc::InvalidInput, "--profile-steps: '" + *steps +
                                        "' is not a whole number from 1 to " +
                                        std::to_string(kMostSteps));
  }
  const std::string file = take_argument(argc, argv, "--measurement").value_or("");
  if (file.empty() && environment_variable("DLFLOW_CACHE").empty()) {
    throw Error(Errc::InvalidInput,
                "--profile-steps has no place for its result: give --measurement FILE, or a folder "
                "in $DLFLOW_CACHE");
  }
  return ProfileOptions{*number, file};
}

int profile_training(runtime::Communicator& comm, const runtime::TrainingJob& job,
                     const ProfileOptions& options) {
  Json measurement = runtime::profile(comm, job, options.steps);
  if (comm.rank() != 0) return 0;
  const Json about = {{"model", sha256_hex(job.model.text)},
                      {"compute", measurement.at("compute")},
                      {"processor", processor()},
                      {"cpus_per_rank", threads_per_rank()}};
  measurement.update(about);
  add_quota(measurement, threads_per_rank());
  measurement.update({{"format", "dlflow measurement 1"}, {"source", "dlflow-train"}});
  std::filesystem::path file = options.file;
  if (file.empty()) {
    const std::string step = environment_variable("DLFLOW_STEP");
    const std::string key = sha256_hex(about.dump()).substr(0, 16);
    file = std::filesystem::path(environment_variable("DLFLOW_CACHE")) / "measurements" /
           ((step.empty() ? "train" : step) + "-" + key + ".json");
  }
  const double step_s = measurement.at("points").at(0).at("step_s");
  add_to(file, std::move(measurement));
  std::printf("%s: a step takes %.3g ms on %d rank%s\n", file.c_str(), step_s * 1e3, comm.size(),
              comm.size() == 1 ? "" : "s");
  return 0;
}

}  // namespace dlflow::steps
