#include "runtime/train/progress_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/not_finite.h"
#include "base/text.h"
#include "runtime/fit/measures.h"

namespace dlflow::runtime {
namespace {

void require_held_out(const std::string& key, const std::string& metric, const Model& model,
                      size_t num_validation) {
  if (num_validation == 0) {
    throw Error(Errc::InvalidInput, "with: '" + key +
                                        "' needs held-out samples; give 'validation' a "
                                        "number above 0");
  }
  require_measured(model, key, metric);
}

Json to_json(const BestValue& best) {
  return best.value ? Json{{"value", *best.value}, {"epoch", best.epoch}} : Json::object();
}

BestValue best_in(const Json& json) {
  if (json.empty()) return {};
  return {json.at("value").get<double>(), json.at("epoch")};
}

/// Returns NaN if the metric is undefined.
double value_of(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::nan("") : found->second;
}

/// Whether `value` is at least as good as `wanted`; false if it is NaN.
bool is_as_good(const std::string& metric, double value, double wanted) {
  return less_is_better(metric) ? value <= wanted : value >= wanted;
}

}  // namespace

bool less_is_better(const std::string& metric) {
  return metric == "loss" || metric == "rmse" || metric == "mae" || metric == "perplexity";
}

bool BestValue::take(const std::string& metric, double now, uint64_t its_epoch, double min_change) {
  if (!can_be_best(now)) return false;
  const double gain = value ? (less_is_better(metric) ? *value - now : now - *value) : 0;
  if (value && !(gain > min_change)) return false;
  value = now;
  epoch = its_epoch;
  return true;
}

EpochRules::EpochRules(const TrainSettings& settings, const Model& model, size_t num_validation)
    : keep_best_(settings.keep_best), stop_early_(settings.stop_early) {
  if (!keep_best_.empty()) require_held_out("keep_best", keep_best_, model, num_validation);
  if (stop_early_) {
    require_held_out("stop_early.metric", stop_early_->metric, model, num_validation);
  }
}

bool EpochRules::end_epoch(uint64_t epoch, uint64_t step,
                           const std::map<std::string, double>& metrics) {
  if (stop_early_) {
    const double value = value_of(metrics, stop_early_->metric);
    stop_.take(stop_early_->metric, value, epoch, stop_early_->min_change);
    if (stop_early_->reach && !reached_ &&
        is_as_good(stop_early_->metric, value, *stop_early_->reach)) {
      reached_ = epoch;
    }
  }
  if (keep_best_.empty() || !best_.take(keep_best_, value_of(metrics, keep_best_), epoch, 0))
    return false;
  best_step_ = step;
  best_metrics_ = metrics;
  return true;
}

bool EpochRules::stops_after(uint64_t epoch) const {
  if (reached_) return true;
  return stop_early_ && stop_early_->patience && stop_.value &&
         epoch >= stop_.epoch + *stop_early_->patience;
}

std::string EpochRules::unmeasured(const std::map<std::string, double>& metrics) const {
  std::vector<std::string> effects;
  std::string missing;
  const auto look = [&](const std::string& metric, const char* effect) {
    if (metric.empty() || metrics.contains(metric)) return;
    effects.emplace_back(effect);
    missing = metric;
  };
  look(keep_best_, "'keep_best' takes the last epoch");
  if (stop_early_) look(stop_early_->metric, "'stop_early' never stops");
  if (effects.empty()) return "";
  return "'" + missing + "' cannot be measured on the held-out samples, so that " +
         join(effects, " and ") +
         "; hold out other samples (more, or some of each class), or name another metric";
}

std::string EpochRules::reason() const {
  if (reached_) {
    return stop_early_->metric + " reached " + fmt::format("{:g}", *stop_early_->reach) +
           " after epoch " + std::to_string(*reached_);
  }
  return stop_early_->metric + " was best after epoch " + std::to_string(stop_.epoch) + ", and " +
         std::to_string(*stop_early_->patience) + " more epochs did not improve it";
}

std::string EpochRules::missed() const {
  if (!stop_early_ || !stop_early_->reach || reached_) return "";
  std::string text =
      stop_early_->metric + " did not reach " + fmt::format("{:g}", *stop_early_->reach);
  if (!stop_.value) return text;
  return text + "; " + fmt::format("{:g}", *stop_.value) + " after epoch " +
         std::to_string(stop_.epoch) + " was the best";
}

Json EpochRules::state() const {
  Json json = Json::object();
  if (stop_early_) json["stop_early"] = to_json(stop_);
  if (reached_) json["reached"] = *reached_;
  if (!best_step_) return json;
  json["keep_best"] = to_json(best_);
  json["keep_best"]["step"] = *best_step_;
  json["keep_best"]["metrics"] = best_metrics_;
  return json;
}

void EpochRules::restore(const Json& state) {
  if (stop_early_) {
    stop_ = best_in(state.value("stop_early", Json::object()));
    if (state.contains("reached")) reached_ = state.at("reached").get<uint64_t>();
  }
  const Json best = state.value("keep_best", Json::object());
  if (keep_best_.empty() || best.empty()) return;
  best_ = best_in(best);
  best_step_ = best.at("step").get<uint64_t>();
  best_metrics_ = best.at("metrics").get<std::map<std::string, double>>();
}

}  // namespace dlflow::runtime
