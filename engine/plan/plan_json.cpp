#include "engine/plan/plan_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"
#include "base/version.h"
#include "engine/model/schedulers.h"

namespace dlflow {
namespace {

/// Raised when plan.json changes in a way that an older dlflow cannot read.
constexpr int kVersion = 1;

void check_type(const Json& options, const Field& field) {
  const Json value = options.value(field.name, field.fallback);
  const bool is_text = !value.is_array() || std::ranges::all_of(value, &Json::is_string);
  if (is_text && std::string_view(value.type_name()) == field.fallback.type_name()) return;
  throw Error(Errc::Corrupt, "not a plan.json: wrong type of the profile's " + field.name);
}

/// The options of a batch system are an object beside the other keys.
void list_options(FieldWriter& archive, const BatchOptions& all) {
  for (const auto& [system, options] : all) archive(system.c_str(), options);
}

void list_options(FieldReader& archive, BatchOptions& all) {
  for (const auto& [system, section] : batch_sections()) {
    if (!archive.has(system.c_str())) continue;
    archive(system.c_str(), all[system]);
    for (const Field& field : section.options.fields) check_type(all[system], field);
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeShape, cores, memory_bytes, gpus)

template <class Archive>
void list_fields(Archive& archive, Limits& value) {
  archive("walltime_s", value.walltime);
  DLFLOW_FIELDS(nodes, array_size, array_throttle, jobs, dependencies);
  archive.if_there("submit_interval_s", value.submit_interval);
}

/// Lists the fields that Profile and NodeClass share.
template <class Archive, class Where>
void list_nodes(Archive& archive, Where& value) {
  DLFLOW_FIELDS(ranks_per_node, node, limits);
  list_options(archive, value.batch_options);
}

template <class Archive>
void list_fields(Archive& archive, NodeClass& value) {
  DLFLOW_FIELDS(name, local, launcher, setup);
  list_nodes(archive, value);
}

template <class Archive>
void list_fields(Archive& archive, Profile& value) {
  DLFLOW_FIELDS(name, file, scheduler, cores, memory_bytes, gpus, launcher, setup, environment);
  archive.if_there("inherit", value.inherit);
  DLFLOW_FIELDS(runs, cache, cache_budget_bytes);
  archive.if_there("container", value.container);  // missing before containers were supported
  if (!archive.has("node")) return;                // written before SLURM was supported
  list_nodes(archive, value);
  archive("scratch", value.scratch);
  archive.if_there("scratch_budget_bytes", value.scratch_budget_bytes);
  archive.if_there("exclude_nodes", value.exclude_nodes, 0);  // missing in older runs
  DLFLOW_FIELDS_IF_THERE(submit_from_jobs, classes);
}

template <class Archive>
void list_fields(Archive& archive, KnownResult& value) {
  DLFLOW_FIELDS(run, job, directory, outputs, metrics);
  archive.if_there("fingerprint", value.fingerprint);
}

template <class Archive>
void list_fields(Archive& archive, FrozenStep& value) {
  DLFLOW_FIELDS(inputs, visible_params);
  DLFLOW_FIELDS_IF_THERE(conditions, version);
  archive.if_there("sees_run", value.sees_run, true);  // an older dlflow: all
}

/// The settings that do not depend on the workflow's text.
template <class Archive>
void list_fields(Archive& archive, Plan& value) {
  DLFLOW_FIELDS(run, created, profile, files, outside);
  archive("workflow_file", value.workflow.file);
  archive("folder", value.base);
  archive("params", value.workflow.params);
  archive.if_there("written", value.workflow.written);
  archive("until", value.options.until);
  archive("force", value.options.force);
  archive.if_there("set", value.options.set);
  archive.if_there("automatic_ranks", value.options.automatic_ranks);
  archive.if_there("predictions", value.options.predictions);
  archive.if_there("common_axes", value.options.common_axes, false);  // missing in older runs
  DLFLOW_FIELDS_IF_THERE(sources, data, secret_variables);
}

Json to_json(const Profile& profile) { return json_of(profile); }

namespace {

FrozenSettings read(const Json& json) {
  FrozenSettings settings;
  read_from(json, settings.plan);
  if (json.contains("images")) json.at("images").get_to(settings.images);
  if (const Json image = json.value("release_image", Json()); !image.is_null()) {
    image.at("from").get_to(settings.release_image);
    image.at("steps").get_to(settings.in_release_image);
  }
  for (const auto& [step, frozen] : json.at("steps").items()) {
    read_from(frozen, settings.steps[step]);
  }
  for (const auto& [job, result] : json.at("reused").items()) {
    settings.reused.emplace(job, from_fields<KnownResult>(result));
  }
  return settings;
}

/// The release image, which the workflow's text does not mention. Null: no step runs in it.
Json release_image_of(const Workflow& workflow) {
  const auto image = std::ranges::find(workflow.images, kReleaseImage, &Image::name);
  if (image == workflow.images.end()) return {};
  Json steps = Json::array();
  for (const Step& step : workflow.steps) {
    if (step.image == kReleaseImage) steps.push_back(step.name);
  }
  return {{"from", image->from}, {"steps", std::move(steps)}};
}

}  // namespace

Json frozen_settings(const Plan& plan) {
  Json json = json_of(plan);
  json["version"] = kVersion;
  json["dlflow"] = DLFLOW_VERSION;
  json["release_image"] = release_image_of(plan.workflow);
  Json& steps = json["steps"] = Json::object();
  for (uint32_t step = 0; step < plan.steps.size(); ++step) {
    if (plan.steps[step].planned) {
      steps[plan.workflow.steps[step].name] = json_of(plan.steps[step]);
    }
  }
  Json& reused = json["reused"] = Json::object();
  for (const auto& [job, result] : plan.reused) reused[plan.jobs[job].name] = json_of(result);
  Json& images = json["images"] = Json::object();
  for (const Image& image : plan.workflow.images) {
    if (!image.digest.empty()) images[image.name] = image.digest;
  }
  return json;
}

FrozenSettings frozen_settings_from_json(const Json& json) {
  try {
    const int version = json.at("version").get<int>();
    if (version > kVersion) {
      throw Error(Errc::Corrupt, "a newer dlflow (" + json.value("dlflow", "unknown") +
                                     ") made this run; use the one in its bin folder");
    }
    return read(json);
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("not a plan.json: ") + reason_of(error));
  }
}

}  // namespace dlflow
