#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/planning.h"
#include "engine/cli/usage.h"
#include "engine/cli/workflow_argument.h"
#include "engine/model/step_kinds.h"
#include "engine/report/style.h"

namespace dlflow {
namespace {

using namespace planner;

struct PlanVerb {
  std::shared_ptr<WorkflowArgument> workflow;
  std::string step, profile = default_profile(), measurement;
};

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return print_number("%.0f us", seconds * 1e6);
  if (seconds < 1) return print_number("%.3g ms", seconds * 1e3);
  return print_number("%.3g s", seconds);
}

std::string percent(double share) { return print_number("%.0f%%", share * 100); }

std::string ranks_text(const Prediction& prediction) {
  return plural(uint64_t(prediction.layout.ranks), "rank");
}

/// The step that is meant: `name`, or else the only training.
const Step& chosen_step(const Workflow& workflow, const std::string& name) {
  std::vector<std::string> trains;
  for (const Step& step : workflow.steps) {
    if (step.name == name) return step;
    const StepKind* kind = find_step_kind(step.uses);
    if (kind != nullptr && kind->divides_into_leaves) trains.push_back(step.name);
  }
  if (!name.empty()) {
    throw Error(Errc::NotFound, workflow.name + " has no step '" + name + "'" +
                                    did_you_mean(name, step_names(workflow)));
  }
  if (trains.size() == 1) return chosen_step(workflow, trains.front());
  const auto names = trains.empty() ? step_names(workflow) : trains;
  throw UsageError("name the step to plan, one of: " + join(names, ", "));
}

std::string mark_of(const Advice& advice, size_t i) {
  if (advice.recommended == i) return "best";
  if (advice.runner_up == i) return "next";
  return advice.predictions[i].fits ? "" : "beyond";
}

std::string prediction_table(const Advice& advice) {
  std::vector<std::vector<std::string>> rows = {
      {"RANKS", "NODES", "BATCH", "COMPR.", "STEP", "EXPOSED", "EFF.", "TIME", "CORE-H", ""}};
  for (size_t i = 0; i < advice.predictions.size(); ++i) {
    const Prediction& p = advice.predictions[i];
    rows.push_back(
        {std::to_string(p.layout.ranks), std::to_string(p.layout.nodes),
         print_number("%.0f", p.batch), p.compression == "none" ? "-" : p.compression,
         format_seconds(p.step_s), format_seconds(p.exposed_s), percent(p.efficiency),
         p.time_s ? format_duration(std::chrono::milliseconds(int64_t(*p.time_s * 1e3))) : "-",
         p.core_hours ? print_number(*p.core_hours < 100 ? "%.2g" : "%.0f", *p.core_hours) : "-",
         mark_of(advice, i)});
  }
  constexpr Align kRight = Align::Right, kLeft = Align::Left;
  constexpr std::array kAlign = {kRight, kRight, kRight, kLeft,  kRight,
                                 kRight, kRight, kRight, kRight, kLeft};
  return columns(rows, kAlign);
}

/// "2026-11-30: 1 rank on 1 node, 2 ranks on 2 nodes"
std::string what_was_measured(const Measurement& measurement) {
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

/// The results of the planner beside the table.
struct Findings {
  double noise_scale = 0;
  double half_efficiency_ranks = 0;             ///< by Lemma 1; infinite: no limit
  std::optional<double> servers, sparse_below;  ///< of the recommendation, if it has several ranks
  std::optional<Prediction> with_less, with_more;  ///< 20 % of the bandwidth
};

std::optional<Prediction> prediction_at(const Advice& advice, std::optional<size_t> i) {
  return i ? std::optional(advice.predictions[*i]) : std::nullopt;
}

std::optional<Prediction> recommended_of(const Advice& advice) {
  return prediction_at(advice, advice.recommended);
}

/// The group that traffic is judged for: the recommendation, or the smallest with several ranks.
const Prediction* with_traffic(const Advice& advice) {
  if (advice.recommended && advice.predictions[*advice.recommended].layout.ranks > 1) {
    return &advice.predictions[*advice.recommended];
  }
  const auto several = std::ranges::find_if(advice.predictions,
                                            [](const Prediction& p) { return p.layout.ranks > 1; });
  return several == advice.predictions.end() ? nullptr : &*several;
}

Findings findings_of(const MeasuredStep& step, const Advice& advice) {
  const Network network(step.measurement.network);
  const StepModel model(step.measurement, network, step.training);
  const StepTime one = model.predict({1, 1}, model.own_batch(1), step.training.compression);
  Findings findings;
  findings.noise_scale = model.noise_scale();
  findings.half_efficiency_ranks =
      lemma1_ranks((one.step_s - one.compute_s) / one.compute_s, kLeastEfficiency);
  findings.with_less = recommended_of(advice_for(step, 0.8));
  findings.with_more = recommended_of(advice_for(step, 1.2));
  const Prediction* group = with_traffic(advice);
  if (group == nullptr) return findings;
  const auto [ranks, nodes] = group->layout;
  const double bytes = model.gradient_bytes();
  const AlphaBeta link = network.link(nodes);
  if (link.beta > 0) {
    findings.servers =
        lemma2_servers(bytes, ranks, 1 / link.beta, group->step_s - group->exposed_s);
  }
  findings.sparse_below =
      sparse_crossover(link, ranks, bytes, network.allreduce(ranks, nodes, bytes));
  return findings;
}

bool is_same(const std::optional<Prediction>& a, const std::optional<Prediction>& b) {
  return a.has_value() == b.has_value() && (!a || (a->layout == b->layout && a->batch == b->batch));
}

std::string change_text(const std::optional<Prediction>& changed,
                        const std::optional<Prediction>& now) {
  if (is_same(changed, now)) return "the same";
  if (!changed) return "none";
  return ranks_text(*changed) + ", batch " + print_number("%.0f", changed->batch);
}

std::string recommendation_text(const Advice& advice) {
  const auto text_of = [&](size_t i) {
    const Prediction& p = advice.predictions[i];
    return ranks_text(p) + " on " + plural(uint64_t(p.layout.nodes), "node") + ", batch " +
           print_number("%.0f", p.batch);
  };
  if (!advice.recommended) return "Recommended: none, no row within the limits is half efficient.";
  return "Recommended: " + text_of(*advice.recommended) + ", " +
         format_seconds(advice.predictions[*advice.recommended].step_s) + " a step" +
         (advice.runner_up ? "; runner-up: " + text_of(*advice.runner_up) : "") + ".";
}

std::vector<std::string> remarks(const MeasuredStep& step, const Advice& advice,
                                 const Findings& findings) {
  std::vector<std::string> lines = {recommendation_text(advice),
                                    "Measured " + what_was_measured(step.measurement) + "."};
  if (!step.is_of_model) lines.push_back("The measurement is of another model or precision.");
  lines.push_back(
      findings.noise_scale > 0
          ? "Noise scale of the gradient: " + print_number("%.0f", findings.noise_scale) +
                " samples; batches beyond it need more samples for the same loss."
          : "The noise scale was not measured, so other batches are not predicted.");
  if (const Prediction* group = with_traffic(advice)) {
    std::string line = "On " + ranks_text(*group) + ": ";
    if (findings.servers) {
      line += plural(uint64_t(*findings.servers), "parameter server") + " would hide the traffic; ";
    }
    line += "top-k is shorter than the dense sum below " +
            print_number("%.2g %%", 100 * findings.sparse_below.value_or(0)) +
            " of the gradient, its selection aside.";
    lines.push_back(line);
  }
  const auto now = recommended_of(advice);
  lines.push_back(
      "Recommendation with 20 % less bandwidth: " + change_text(findings.with_less, now) +
      "; with 20 % more: " + change_text(findings.with_more, now) + ".");
  return lines;
}

Json prediction_json(const std::optional<Prediction>& p) { return p ? to_json(*p) : Json(); }

Json plan_json(const Step& step, const MeasuredStep& measured, const Advice& advice,
               const Findings& findings) {
  Json predictions = Json::array();
  for (const Prediction& p : advice.predictions) predictions.push_back(to_json(p));
  const auto or_none = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"step", step.name},
          {"measurement", measured.file.string()},
          {"predictions", std::move(predictions)},
          {"recommended", prediction_json(recommended_of(advice))},
          {"runner_up", prediction_json(prediction_at(advice, advice.runner_up))},
          {"noise_scale", findings.noise_scale > 0 ? Json(findings.noise_scale) : Json()},
          {"half_efficiency_ranks", findings.half_efficiency_ranks},  // infinite: null
          {"parameter_servers", or_none(findings.servers)},
          {"sparse_below", or_none(findings.sparse_below)},
          {"with_less_bandwidth", prediction_json(findings.with_less)},
          {"with_more_bandwidth", prediction_json(findings.with_more)}};
}

void show_advice(Session& session, const PlanVerb& verb) {
  const Workflow workflow = verb.workflow->read();
  const Step& step = chosen_step(workflow, verb.step);
  const MeasuredStep measured =
      measured_step(workflow, step, load_profile(verb.profile), verb.measurement);
  const Advice advice = advice_for(measured);
  const Findings findings = findings_of(measured, advice);
  if (session.json) return print_json(plan_json(step, measured, advice, findings));
  std::fputs(prediction_table(advice).c_str(), stdout);
  if (session.quiet) return;
  std::putchar('\n');
  for (const std::string& remark : remarks(measured, advice, findings)) {
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
  add_value(*command, "step", "STEP", verb->step, "the step; the only training if left out");
  add_value(*command, "--profile", "NAME", verb->profile, "the cluster to run on")
      ->capture_default_str();
  add_value(*command, "--measurement", "FILE", verb->measurement,
            "take this measurement, instead of the newest in the cluster's cache");
  add_json_option(*command, session);
  command->callback([verb, &session] { show_advice(session, *verb); });
}

}  // namespace dlflow
