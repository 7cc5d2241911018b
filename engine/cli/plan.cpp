#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_fields.h"
#include "base/not_finite.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/planning.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

using namespace planner;
using namespace std::chrono_literals;

struct PlanVerb {
  std::shared_ptr<WorkflowArgument> workflow;
  std::string step, profile = default_profile(), measurement;
};

/// The step `name`, or else the only training.
const Step& chosen_step(const Workflow& workflow, const std::string& name) {
  std::vector<std::string> trains;
  for (const Step& step : workflow.steps) {
    if (step.name == name) return step;
    if (is_training(step)) trains.push_back(step.name);
  }
  if (!name.empty()) {
    throw Error(Errc::NotFound, workflow.name + " has no step '" + name + "'" +
                                    did_you_mean(name, step_names(workflow)));
  }
  if (trains.size() == 1) return chosen_step(workflow, trains.front());
  const auto names = trains.empty() ? step_names(workflow) : trains;
  throw UsageError("name the step to plan, one of: " + join(names, ", "));
}

/// Takes the epochs to the aim of the step from the newest run of the workflow that reached it, and
/// the energy of a core where the cluster counts it. Returns a remark about it; empty without an
/// aim.
std::string take_earlier_run(Session& session, const std::string& workflow, const Step& step,
                             MeasuredStep& measured) {
  if (measured.aim.empty()) return "";
  std::vector<std::string> runs;
  for (const RunSummary& run : session.store().runs()) {
    if (run.workflow == workflow) runs.push_back(run.run);
  }
  const auto known = refresh_runs(session, runs, Detail::Usage);
  for (const std::string& run : runs) {
    for (const JobRow& job : known.at(run).jobs) {
      const auto epoch = number_at(job.metrics, "reached_epoch");
      if (job.step != step.name || !epoch) continue;
      measured.training.epochs = *epoch;
      const JobUsage used = job.usage.value_or(JobUsage());
      const double core_s =
          std::chrono::duration<double>(used.elapsed.value_or(0ms)).count() * used.cpus;
      if (core_s > 0) measured.bounds.joules_per_core_s = used.energy_joules.value_or(0) / core_s;
      return "TIME is until " + measured.aim + ", which run " + run + " reached after " +
             plural(uint64_t(*epoch), "epoch") + ".";
    }
  }
  return "No earlier run reached " + measured.aim + ", so TIME is for all epochs.";
}

/// "2026-11-30: 1 rank on 1 node, 2 ranks on 2 nodes"
std::string groups_text(const Measurement& measurement) {
  int64_t at = 0;
  std::set<std::pair<int, int>> groups;
  for (const MeasuredPoint& point : measurement.points) {
    at = std::max(at, point.at);
    groups.emplace(point.ranks, point.nodes);
  }
  std::vector<std::string> texts;
  for (const auto& [ranks, nodes] : groups) {
    texts.push_back(plural(uint64_t(ranks), "rank") + " on " + plural(uint64_t(nodes), "node"));
  }
  return to_rfc3339(Time(std::chrono::seconds(at))).substr(0, 10) + ": " + join(texts, ", ");
}

/// All that the verb prints.
struct StepPlan {
  std::string step, measurement, measured;
  std::vector<Prediction> predictions;
  std::optional<Prediction> recommended, runner_up, with_less_bandwidth, with_more_bandwidth;
  std::optional<double> noise_scale = {};
  double half_efficiency_ranks = 0;       ///< by Lemma 1; infinite: no limit
  std::optional<int> traffic_ranks = {};  ///< of the recommendation, or the fewest of several
  std::optional<double> parameter_servers = {}, sparse_below = {};  ///< for traffic_ranks
  std::vector<LayerAlgorithms> algorithms = {};
  std::vector<std::string> notes = {};
};
DLFLOW_DEFINE_FIELDS(StepPlan, step, measurement, measured, predictions, recommended, runner_up,
                     with_less_bandwidth, with_more_bandwidth, noise_scale, half_efficiency_ranks,
                     traffic_ranks, parameter_servers, sparse_below, algorithms, notes)

void judge_traffic(StepPlan& plan, const StepModel& model) {
  const auto several = [](const Prediction& p) { return p.ranks > 1; };
  const auto found = std::ranges::find_if(plan.predictions, several);
  if (found == plan.predictions.end()) return;
  const Prediction& group =
      plan.recommended && several(*plan.recommended) ? *plan.recommended : *found;
  const double bytes = model.measurement().parameters_bytes;
  const AlphaBeta link = model.network().link(group.nodes);
  plan.traffic_ranks = group.ranks;
  if (link.beta > 0) {
    plan.parameter_servers =
        lemma2_servers(bytes, group.ranks, 1 / link.beta, group.step_s - group.exposed_s);
  }
  const double dense_s = model.network().allreduce(group.ranks, group.nodes, bytes);
  plan.sparse_below = sparse_crossover(link, group.ranks, bytes, dense_s);
}

StepPlan plan_of_step(const Step& step, const MeasuredStep& measured) {
  const StepModel model(measured.measurement, measured.training);
  const StepTime one = model.predict({1, 1}, model.own_batch(1), measured.training.compression);
  const Advice advice = advice_for(measured);
  StepPlan plan = {.step = step.name,
                   .measurement = measured.file.string(),
                   .measured = groups_text(measured.measurement),
                   .predictions = advice.predictions,
                   .recommended = advice.recommended,
                   .runner_up = advice.runner_up,
                   .with_less_bandwidth = advice_for(measured, 0.8).recommended,
                   .with_more_bandwidth = advice_for(measured, 1.2).recommended};
  if (model.noise_scale() > 0) plan.noise_scale = model.noise_scale();
  plan.half_efficiency_ranks =
      lemma1_ranks((one.step_s - one.compute_s) / one.compute_s, kLeastEfficiency);
  judge_traffic(plan, model);
  plan.algorithms = measured.measurement.algorithms;
  return plan;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return print_number("%.0f us", seconds * 1e6);
  if (seconds < 1) return print_number("%.3g ms", seconds * 1e3);
  return print_number("%.3g s", seconds);
}

/// Names the convolutions that another algorithm computes faster by more than the measurement's
/// noise.
std::vector<std::string> algorithm_lines(const std::vector<LayerAlgorithms>& all) {
  constexpr double kNoise = 0.05;
  std::map<std::string, std::vector<std::string>> layers;
  std::map<std::string, double> saved_s;
  for (const LayerAlgorithms& layer : all) {
    const bool winograd = layer.used == "winograd";
    const double now = winograd ? layer.winograd_s : layer.direct_s;
    const double other = winograd ? layer.direct_s : layer.winograd_s;
    if (other >= (1 - kNoise) * now) continue;
    const std::string word = winograd ? "direct" : "winograd";
    layers[word].push_back(layer.layer);
    saved_s[word] += now - other;
  }
  std::vector<std::string> lines;
  for (const auto& [word, names] : layers) {
    lines.push_back("`algorithm: " + word + "` in the model saves " + seconds_text(saved_s[word]) +
                    " of a step at " + join(names, ", ") + "; results differ in their last bits.");
  }
  if (!all.empty() && lines.empty()) {
    lines.push_back("Of " + plural(all.size(), "convolution") +
                    " with two algorithms, each takes the faster one.");
  }
  return lines;
}

std::string mark_of(const StepPlan& plan, const Prediction& row) {
  if (row == plan.recommended) return "best";
  if (row == plan.runner_up) return "next";
  return row.fits ? "" : "beyond";
}

/// Whether it is of the workflow's own compression, or the fastest other one for its ranks.
bool is_shown(const std::vector<Prediction>& rows, const Prediction& row) {
  const std::string& own = rows.front().compression;
  return row.compression == own || std::ranges::none_of(rows, [&](const Prediction& other) {
           return other.compression != own && other.ranks == row.ranks &&
                  other.nodes == row.nodes && other.step_s < row.step_s;
         });
}

std::string prediction_table(const StepPlan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"RANKS", "NODES", "BATCH", "COMPR.", "STEP", "EXPOSED", "EFF.", "TIME", "CORE-H", ""}};
  for (const Prediction& p : plan.predictions) {
    if (!is_shown(plan.predictions, p)) continue;
    rows.push_back(
        {std::to_string(p.ranks), std::to_string(p.nodes), print_number("%.0f", p.batch),
         p.compression == "none" ? "-" : p.compression, seconds_text(p.step_s),
         seconds_text(p.exposed_s), print_number("%.0f%%", 100 * p.efficiency),
         p.time_s ? format_duration(std::chrono::milliseconds(int64_t(*p.time_s * 1e3))) : "-",
         p.core_hours ? print_number(*p.core_hours < 100 ? "%.2g" : "%.0f", *p.core_hours) : "-",
         mark_of(plan, p)});
  }
  std::vector<Align> align(rows.front().size(), Align::Right);
  align[3] = align.back() = Align::Left;
  return columns(rows, align);
}

/// "4 ranks on 2 nodes, batch 128"
std::string place_text(const std::optional<Prediction>& p) {
  if (!p) return "none";
  return plural(uint64_t(p->ranks), "rank") + " on " + plural(uint64_t(p->nodes), "node") +
         print_number(", batch %.0f", p->batch);
}

std::vector<std::string> remarks(const StepPlan& plan) {
  const std::string now = place_text(plan.recommended);
  const auto change = [&](const std::optional<Prediction>& other) {
    return place_text(other) == now ? "the same" : place_text(other);
  };
  std::vector<std::string> lines = {
      plan.recommended
          ? "Recommended: " + now + ", " + seconds_text(plan.recommended->step_s) + " a step" +
                (plan.runner_up ? "; runner-up: " + place_text(plan.runner_up) : "") + "."
          : "Recommended: none, no row within the limits reaches 50 % efficiency.",
      "Measured " + plan.measured + "."};
  lines.insert(lines.end(), plan.notes.begin(), plan.notes.end());
  lines.push_back(plan.noise_scale
                      ? print_number("Noise scale of the gradient: %.0f", *plan.noise_scale) +
                            " samples; batches beyond it need more samples for the same loss."
                      : "The noise scale was not measured, so other batches are not predicted.");
  if (plan.traffic_ranks) {
    const double servers = plan.parameter_servers.value_or(1);
    lines.push_back(
        "On " + plural(uint64_t(*plan.traffic_ranks), "rank") + ": " +
        plural(uint64_t(servers), "parameter server") +
        " would hide the traffic; top-k takes less time than the dense sum if it sends less than " +
        print_number("%.2g %%", 100 * plan.sparse_below.value_or(0)) +
        " of the gradient, not counting the selection.");
  }
  for (std::string& line : algorithm_lines(plan.algorithms)) lines.push_back(std::move(line));
  lines.push_back("Recommendation with 20 % less bandwidth: " + change(plan.with_less_bandwidth) +
                  "; with 20 % more: " + change(plan.with_more_bandwidth) + ".");
  return lines;
}

void show_advice(Session& session, const PlanVerb& verb) {
  const Workflow workflow = verb.workflow->read();
  const Step& step = chosen_step(workflow, verb.step);
  MeasuredStep measured =
      measured_step(workflow, step, load_profile(verb.profile), verb.measurement);
  const std::string earlier = take_earlier_run(session, workflow.name, step, measured);
  StepPlan plan = plan_of_step(step, measured);
  if (!measured.is_of_model) {
    plan.notes.emplace_back("The measurement is for another model or precision.");
  }
  if (!earlier.empty()) plan.notes.push_back(earlier);
  if (plan.recommended && plan.recommended->energy_j) {
    const double kwh = *plan.recommended->energy_j / 3.6e6;
    plan.notes.push_back(print_number("The recommended run takes %.3g kWh.", kwh));
  }
  if (session.json) return print_json(json_of(plan));
  std::fputs(prediction_table(plan).c_str(), stdout);
  if (session.quiet) return;
  std::putchar('\n');
  for (const std::string& remark : remarks(plan)) {
    for (const std::string& line : wrap(escaped(remark), 80)) std::printf("%s\n", line.c_str());
  }
  std::printf("Measurement: %s\n", escaped(measured.file.string()).c_str());
}

}  // namespace

void add_plan(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "plan", "Predict step time, cost and the best number of ranks of a measured step.", R"(
  dlflow plan pipeline.yaml
  dlflow plan pipeline.yaml train --profile alpha --json)");
  const auto verb = std::make_shared<PlanVerb>();
  verb->workflow = add_workflow_argument(*command);
  add_value(*command, "step", "STEP", verb->step, "the step; default: the only train step");
  add_value(*command, "--profile", "NAME", verb->profile, "the cluster to run on")
      ->capture_default_str();
  add_value(*command, "--measurement", "FILE", verb->measurement,
            "use this measurement instead of the newest in the cluster's cache");
  add_json_option(*command, session);
  command->callback([verb, &session] { show_advice(session, *verb); });
}

}  // namespace dlflow
