#include "runtime/settings/update.h"

#include <algorithm>
#include <vector>

#include "base/leaves.h"
#include "runtime/nn/patterns.h"

namespace dlflow::runtime {
namespace {

using OptimizerKind = OptimizerOptions::Kind;

OptimizerKind read_kind(const Json* json) {
  std::vector<std::string> names;
  for (const OptimizerKind kind : OptimizerOptions::kKinds) {
    if (json != nullptr && *json == name(kind)) return kind;
    names.push_back(name(kind));
  }
  WithReader::fail("optimizer.kind", std::move(names));
}

void read_betas(const Json& json, OptimizerOptions& options) {
  const auto is_beta = [](const Json& beta) {
    return beta.is_number() && beta.get<double>() >= 0 && beta.get<double>() < 1;
  };
  if (!json.is_array() || json.size() != 2 || !std::ranges::all_of(json, is_beta)) {
    WithReader::fail("optimizer.betas", "two numbers from 0 to less than 1");
  }
  options.beta1 = json[0];
  options.beta2 = json[1];
}

/// Reads the keys of options.kind, and refuses those of others.
void read_own_keys(WithReader& reader, OptimizerOptions& options) {
  const OptimizerKind kind = options.kind;
  const bool has_moments =
      kind == OptimizerKind::Adam || kind == OptimizerKind::AdamW || kind == OptimizerKind::Lamb;
  const auto has = [&](const std::string& key, bool belongs) {
    const bool there = reader.find(key) != nullptr;
    if (there && !belongs)
      WithReader::refuse("optimizer." + key, "is not an option of '" + name(kind) + "'");
    return there;
  };
  const bool has_epsilon =
      has_moments || kind == OptimizerKind::RmsProp || kind == OptimizerKind::Adagrad;
  if (kind == OptimizerKind::Lamb) options.epsilon = 1e-6;      // as in its authors' code
  if (kind == OptimizerKind::Adagrad) options.epsilon = 1e-10;  // as in PyTorch
  if (has("nesterov", kind == OptimizerKind::Sgd))
    options.nesterov = reader.flag("nesterov", false);
  if (has("betas", has_moments)) read_betas(*reader.find("betas"), options);
  if (has("eps", has_epsilon)) options.epsilon = reader.number("eps", 0, {});
  if (has("alpha", kind == OptimizerKind::RmsProp)) {
    options.alpha = reader.number("alpha", 0, {});
    if (options.alpha >= 1) WithReader::fail("optimizer.alpha", "less than 1");
  }
  if (has("trust", kind == OptimizerKind::Lars)) options.trust = reader.number("trust", 0, {});
}

/// The default value is accepted for every kind, since the step of a workflow always has it.
double read_momentum(WithReader& with, const OptimizerOptions& options) {
  const double momentum = with.number("momentum", 0, options.momentum);
  const bool has_betas = options.kind != OptimizerOptions::Kind::RmsProp &&
                         options.kind != OptimizerOptions::Kind::Adagrad;
  const bool has_one = options.kind == OptimizerKind::Sgd || options.kind == OptimizerKind::Lars;
  if (!has_one && momentum != options.momentum) {
    WithReader::refuse("momentum", "is not an option of '" + name(options.kind) + "'" +
                                       (has_betas ? ", which has 'betas'" : ""));
  }
  if (momentum >= 1) WithReader::fail("momentum", "below 1: otherwise steps grow without bound");
  return momentum;
}

/// Whether biases and the parameters of batch normalisation decay as well. By default as in
/// PyTorch, but for lars and lamb as in their papers.
bool read_decay(const Json* decay, OptimizerKind kind) {
  if (decay == nullptr) return kind != OptimizerKind::Lars && kind != OptimizerKind::Lamb;
  if (*decay == "weights") return false;
  if (*decay == "all") return true;
  WithReader::fail("decay", "'weights' or 'all'");
}

RateScaling read_scaling(WithReader& with) {
  if (with.find("lr_scaling") == nullptr) return RateScaling::None;
  return with.word<RateScaling>("lr_scaling",
                                {{"linear", RateScaling::Linear}, {"sqrt", RateScaling::Sqrt}});
}

std::vector<ParameterGroup> read_groups(const Json* json) {
  std::vector<ParameterGroup> groups;
  if (json == nullptr) return groups;
  if (!json->is_array() || json->empty()) {
    WithReader::fail("groups", "a list of {match: …, lr_multiplier: …, weight_decay: …}");
  }
  for (const Json& entry : *json) {
    const std::string key = "groups[" + std::to_string(groups.size()) + "]";
    WithReader reader(entry, key);
    ParameterGroup& group = groups.emplace_back();
    group.match = reader.text("match");
    group.lr_multiplier = reader.number("lr_multiplier", 0, 1);
    if (group.lr_multiplier == 0) {
      WithReader::fail(key + ".lr_multiplier", "above 0; 'freeze' keeps layers as they are");
    }
    if (reader.find("weight_decay") != nullptr) {
      group.weight_decay = reader.number("weight_decay", 0, {});
    }
    reader.finish();
  }
  return groups;
}

}  // namespace

const ParameterGroup* group_of(std::span<const ParameterGroup> groups, const std::string& name) {
  for (const ParameterGroup& group : groups) {
    if (matches_pattern(name, group.match)) return &group;
  }
  return nullptr;
}

UpdateSettings read_update(WithReader& with) {
  UpdateSettings settings;
  OptimizerOptions& options = settings.optimizer;
  if (const Json* json = with.find("optimizer")) {
    WithReader reader(*json, "optimizer");
    options.kind = read_kind(reader.find("kind"));
    read_own_keys(reader, options);
    reader.finish();
  }
  options.momentum = read_momentum(with, options);
  options.weight_decay = with.number("weight_decay", 0, options.weight_decay);
  settings.decays_vectors = read_decay(with.find("decay"), options.kind);
  if (with.find("clip_norm") != nullptr) {
    settings.clip_norm = with.number("clip_norm", 0, {});
    if (*settings.clip_norm == 0) WithReader::fail("clip_norm", "above 0");
  }
  settings.shard_optimizer = with.flag("shard_optimizer", false);
  settings.accumulate = with.count("accumulate", 1, settings.accumulate);
  if (settings.accumulate > kMostLeavesOfStep) {
    WithReader::fail("accumulate", "at most " + std::to_string(kMostLeavesOfStep));
  }
  settings.lr_scaling = read_scaling(with);
  if (settings.lr_scaling != RateScaling::None) {
    settings.base_batch = with.count("base_batch", 1, {});
  } else if (with.find("base_batch") != nullptr) {
    WithReader::refuse("base_batch", "needs 'lr_scaling'");
  }
  settings.groups = read_groups(with.find("groups"));
  settings.ema = with.number("ema", 0, settings.ema);
  if (settings.ema >= 1) WithReader::fail("ema", "less than 1");
  return settings;
}

}  // namespace dlflow::runtime
