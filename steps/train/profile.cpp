#include "steps/train/profile.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
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
constexpr const char* kFormat = "dlflow measurement 1";

/// The value behind `name`, which is taken out with it.
std::optional<std::string> take_argument(int& argc, char** argv, const char* name) {
  char** const end = argv + argc;
  char** const found = std::find_if(
      argv, end, [&](const char* argument) { return std::strcmp(argument, name) == 0; });
  if (found == end) return std::nullopt;
  if (found + 1 == end) throw Error(Errc::InvalidInput, std::string(name) + " lacks its value");
  const std::string value = found[1];
  std::copy(found + 2, end, found);
  argc -= 2;
  argv[argc] = nullptr;
  return value;
}

/// "model name : ..." of /proc/cpuinfo.
std::string processor() {
  for (const std::string& line : split(read_file_if_exists("/proc/cpuinfo").value_or(""), '\n')) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) {
      return std::string(trim(line.substr(colon + 1)));
    }
  }
  return "unknown";
}

std::filesystem::path file_of(const Json& about) {
  const std::string key = sha256_hex(about.dump()).substr(0, 16);
  const std::string step = environment_variable("DLFLOW_STEP");
  return std::filesystem::path(environment_variable("DLFLOW_CACHE")) / "measurements" /
         ((step.empty() ? "train" : step) + "-" + key + ".json");
}

/// Whether both were measured in the same way.
bool is_same(const Json& one, const Json& other, std::initializer_list<const char*> keys) {
  return std::ranges::all_of(
      keys, [&](const char* key) { return one.value(key, Json()) == other.value(key, Json()); });
}

/// `list`, and those of `old` that were measured in another way.
void keep(Json& list, const Json& old, std::initializer_list<const char*> keys) {
  Json all = Json::array();
  for (const Json& entry : old) {
    const bool again =
        std::ranges::any_of(list, [&](const Json& newer) { return is_same(entry, newer, keys); });
    if (!again) all.push_back(entry);
  }
  all.insert(all.end(), list.begin(), list.end());
  list = all;
}

/// Throws if the file is not of the same model, measured on the same kind of processor.
void add_to(const std::filesystem::path& file, Json measurement) {
  if (const auto text = read_file_if_exists(file)) {
    const Json old = parse_json(*text, kForeignJson);
    const bool fits = old.is_object() && is_same(old, measurement,
                                                 {"format", "model", "compute", "processor",
                                                  "cpus_per_rank", "source"});
    if (!fits) {
      throw Error(Errc::InvalidInput,
                  file.string() +
                      " is no measurement of this model on this kind of processor; "
                      "remove it, or give another --measurement FILE");
    }
    keep(measurement["points"], old.value("points", Json::array()),
         {"ranks", "nodes", "mode", "batch", "leaf_samples"});
    keep(measurement["network"], old.value("network", Json::array()), {"ranks", "nodes"});
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
  const std::string model = sha256_hex(job.model.text);
  Json measurement = runtime::profile(comm, job, options.steps);
  if (comm.rank() != 0) return 0;
  const Json about = {{"model", model},
                      {"compute", measurement.at("compute")},
                      {"processor", processor()},
                      {"cpus_per_rank", threads_per_rank()}};
  measurement.update(about);
  measurement["format"] = kFormat;
  measurement["source"] = "dlflow-train";
  const std::filesystem::path file = options.file.empty() ? file_of(about) : options.file;
  const double step_s = measurement.at("points").at(0).at("step_s");
  add_to(file, std::move(measurement));
  std::printf("%s: a step takes %.3g ms on %d rank%s\n", file.c_str(), step_s * 1e3, comm.size(),
              comm.size() == 1 ? "" : "s");
  return 0;
}

}  // namespace dlflow::steps
