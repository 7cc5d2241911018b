#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {
namespace {

using CooperationKind = CooperationOptions::Kind;

struct KindKeys {
  CooperationKind kind;
  const char* name;
  std::vector<std::string> keys;  // besides `kind`
};

const std::array<KindKeys, 6>& kinds() {
  static const std::array<KindKeys, 6> all = {{
      {CooperationKind::Synchronous, "synchronous", {}},
      {CooperationKind::LocalSgd, "local_sgd", {"every", "synchronous_epochs"}},
      {CooperationKind::Elastic, "elastic", {"every", "rate"}},
      {CooperationKind::ParameterServer, "parameter_server", {"servers", "staleness"}},
      {CooperationKind::Gossip, "gossip", {"every"}},
      {CooperationKind::Pairwise, "pairwise", {"every"}},
  }};
  return all;
}

const KindKeys& keys_of(CooperationKind kind) { return kinds().at(size_t(kind)); }

CooperationKind read_kind(WithReader& reader) {
  std::vector<std::string> names;
  const Json* const given = reader.find("kind");
  for (const KindKeys& known : kinds()) {
    if (given != nullptr && *given == known.name) return known.kind;
    names.push_back(known.name);
  }
  WithReader::fail("cooperation.kind", std::move(names));
}

/// Refuses keys of other kinds.
void require_keys_of(CooperationKind kind, const Json& json) {
  for (const KindKeys& other : kinds()) {
    for (const std::string& key : other.keys) {
      if (!json.contains(key) || std::ranges::count(keys_of(kind).keys, key) > 0) continue;
      WithReader::refuse("cooperation." + key, std::string("is not an option of 'kind: ") +
                                                   keys_of(kind).name + "'; it is for '" +
                                                   other.name + "'");
    }
  }
}

std::optional<uint64_t> read_staleness(WithReader& reader) {
  constexpr uint64_t kUsual = 4;
  const Json* const given = reader.find("staleness");
  if (given != nullptr && *given == "unbounded") return {};
  if (given != nullptr && !given->is_number()) {
    WithReader::fail("cooperation.staleness", "a whole number of at least 0, or 'unbounded'");
  }
  return reader.count("staleness", 0, kUsual);
}

void require_not_synchronous(const Json& with, CooperationKind kind) {
  const std::string beside = std::string("with 'cooperation: {kind: ") + keys_of(kind).name + "}'";
  const Json precision = with.value("precision", Json::object());
  if (precision.is_object() && precision.value("reduction", Json("fast")) == "exact") {
    WithReader::fail("precision.reduction",
                     "'fast', or left out, " + beside + ": its bits depend on the number of ranks");
  }
  if (precision.is_object() && precision.contains("leaves")) {
    WithReader::refuse("precision.leaves",
                       "cannot be used " + beside + ", which has one leaf per rank");
  }
  if (with.contains("gradients")) {
    WithReader::refuse("gradients", "cannot be used " + beside + "; it is for 'synchronous'");
  }
  if (with.value("shard_optimizer", Json(false)) == true) {
    WithReader::refuse("shard_optimizer", "cannot be used " + beside + "; it is for 'synchronous'");
  }
  if (with.value("batch_norm", Json("leaf")) == "global") {
    WithReader::fail("batch_norm", "'leaf' " + beside + ": each rank makes steps of its own");
  }
}

/// Refuses settings that need whole layers, since servers hold parts of layers.
void require_updates_in_parts(const Json& with) {
  const char* const why =
      " with 'cooperation: {kind: parameter_server}': no server has a whole "
      "layer's norm";
  if (with.contains("clip_norm"))
    WithReader::refuse("clip_norm", std::string("cannot be used") + why);
  const Json optimizer = with.value("optimizer", Json::object());
  const Json kind = optimizer.is_object() ? optimizer.value("kind", Json("sgd")) : Json("sgd");
  if (kind == "lars" || kind == "lamb") {
    WithReader::fail("optimizer.kind", std::string("'sgd', 'adam' or 'adamw'") + why);
  }
}

}  // namespace

CooperationOptions read_cooperation(const Json& with) {
  constexpr uint64_t kUsualLocalSteps = 8;
  constexpr auto kMostServers = uint64_t(std::numeric_limits<int>::max());
  CooperationOptions options;
  if (!with.is_object() || !with.contains("cooperation")) return options;
  const Json& json = with.at("cooperation");
  WithReader reader(json, "cooperation");
  options.kind = read_kind(reader);
  require_keys_of(options.kind, json);
  const bool exchanges_with_one =
      options.kind == CooperationKind::Gossip || options.kind == CooperationKind::Pairwise;
  options.every = reader.count("every", 1, exchanges_with_one ? 1 : kUsualLocalSteps);
  options.synchronous_epochs = reader.count("synchronous_epochs", 0, options.synchronous_epochs);
  options.rate = reader.number("rate", 0, options.rate);
  if (options.rate == 0 || options.rate > 1) {
    WithReader::fail("cooperation.rate", "a number above 0, at most 1");
  }
  options.servers = int(std::min(reader.count("servers", 1, 1), kMostServers));
  options.staleness = read_staleness(reader);
  reader.finish();
  if (options.kind != CooperationKind::Synchronous) require_not_synchronous(with, options.kind);
  if (options.kind == CooperationKind::ParameterServer) require_updates_in_parts(with);
  return options;
}

std::string describe(const CooperationOptions& options, int num_ranks) {
  const auto number = [](uint64_t n) { return std::to_string(n); };
  std::string text = keys_of(options.kind).name;
  switch (options.kind) {
    case CooperationKind::Synchronous:
      break;
    case CooperationKind::LocalSgd:
      text += " every " + number(options.every);
      if (options.synchronous_epochs > 0) {
        text += " from epoch " + number(options.synchronous_epochs + 1) + " on";
      }
      break;
    case CooperationKind::Elastic:
      text += " every " + number(options.every) + ", rate: " + fmt::format("{:g}", options.rate);
      break;
    case CooperationKind::ParameterServer:
      text += ", servers: " + std::to_string(options.servers) +
              ", staleness: " + (options.staleness ? number(*options.staleness) : "unbounded");
      break;
    case CooperationKind::Gossip:
    case CooperationKind::Pairwise:
      text += " every " + number(options.every);
      break;
  }
  return text + ", ranks: " + std::to_string(num_ranks);
}

}  // namespace dlflow::runtime
