#include "engine/share/bundle_summary.h"

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/parse_json.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/model/parse.h"
#include "engine/share/bundle_reader.h"

namespace dlflow {
namespace {

Workflow parse(const std::string& text, const Manifest& manifest) {
  auto parsed =
      parse_workflow_text(text, manifest.workflow, settings(manifest), {.check_files = false});
  if (const auto* diagnostics = std::get_if<Diagnostics>(&parsed)) {
    throw Error(Errc::Corrupt,
                "the bundle's workflow is not valid: " + to_string(diagnostics->front()));
  }
  return std::get<Workflow>(std::move(parsed));
}

std::string padded(const std::string& text, size_t width) {
  const size_t used = display_width(text);
  return used < width ? text + std::string(width - used, ' ') : text;
}

/// "params    epochs=3, ranks=2"; nothing without parameters.
std::string line(const std::string& what, const std::vector<std::string>& items,
                 const std::string& separator = ", ") {
  return items.empty() ? "" : padded(what, 10) + join(items, separator) + "\n";
}

std::string run_lines(const Json& run) {
  if (run.is_null()) return "";
  std::string text =
      line("run", {run.value("run", "") + " " + run.value("state", "") + ", " +
                   run.value("scheduler", "") + ", dlflow " + run.value("dlflow", "")});
  size_t num_results = 0;
  for (const Json& job : run.value("jobs", Json::array())) {
    num_results += job.contains("result") ? 1 : 0;
    std::vector<std::string> metrics;
    const Json numbers = job.value("metrics", Json::object());
    for (const auto& [name, value] : numbers.items()) {
      metrics.push_back(name + " " + value.dump());
    }
    text += "  " + padded(job.value("job", ""), 16) + " " + padded(job.value("state", ""), 10) +
            " " + join(metrics, ", ") + "\n";
  }
  if (num_results > 0) {
    text += line("results", {"of " + plural(num_results, "job")});
  }
  return text;
}

std::vector<std::string> step_words(const Workflow& workflow) {
  std::vector<std::string> words;
  for (const Step& step : workflow.steps) {
    const std::string kind = kind_name(step);
    words.push_back(step.name + (kind == step.name ? "" : " (" + kind + ")"));
  }
  return words;
}

std::string packed_word(bool packed) { return packed ? "packed" : "not packed"; }

std::string plain_text(const BundleSummary& summary) {
  const Manifest& manifest = summary.manifest;
  std::vector<std::string> params;
  for (const auto& [name, value] : summary.workflow.params.items()) {
    params.push_back(name + "=" + value.dump());
  }
  std::vector<std::string> images;
  for (const auto& [name, image] : manifest.images) {
    images.push_back(name + "  " + image.from + "  " + packed_word(image.packed));
  }
  std::vector<std::string> data;
  for (const PackedData& item : manifest.data) {
    data.push_back(item.url + "  " +
                   (item.packed ? format_size(item.bytes) + ", packed" : "not packed"));
  }
  const std::string next_line = "\n" + std::string(10, ' ');
  std::string text = manifest.name + "  " + format_size(summary.bytes) + ", by dlflow " +
                     manifest.dlflow + "\n\n" + line("workflow", {manifest.workflow}) +
                     line("params", params) + line("steps", step_words(summary.workflow)) +
                     line("images", images, next_line) + line("data", data, next_line) +
                     run_lines(summary.run) + "\n";
  for (const auto& [name, file] : manifest.files) {
    text += padded(format_size(file.bytes), 9) + " " + name + "\n";
  }
  return text;
}

}  // namespace

BundleSummary summarize(const std::filesystem::path& file) {
  BundleReader bundle(file);
  const Manifest& manifest = bundle.manifest();
  BundleSummary summary{bundle.file_bytes(), manifest,
                        parse(bundle.read_text(manifest.workflow), manifest), Json()};
  if (!manifest.run.empty()) {
    summary.run =
        parse_json(bundle.read_text("run/run.json"), {.max_depth = kForeignJson.max_depth});
    if (!summary.run.is_object()) throw Error(Errc::Corrupt, "run/run.json is not an object");
  }
  return summary;
}

Json to_json(const BundleSummary& summary) {
  Json json = to_json(summary.manifest);
  json["bytes"] = summary.bytes;
  json["params"] = summary.workflow.params;
  json["steps"] = Json::array();
  for (const Step& step : summary.workflow.steps) {
    json["steps"].push_back({{"name", step.name},
                             {"uses", or_null(step.uses)},
                             {"image", or_null(step.image)},
                             {"needs", step.needs}});
  }
  json["run"] = summary.run;
  return json;
}

std::string to_text(const BundleSummary& summary) {
  try {
    return escaped_lines(plain_text(summary));  // foreign text
  } catch (const Json::exception& error) {
    throw Error(Errc::Corrupt, std::string("run/run.json is damaged: ") + reason_of(error));
  }
}

}  // namespace dlflow
