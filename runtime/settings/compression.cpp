#include <map>

#include "base/json.h"
#include "base/text.h"
#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

const std::map<std::string, CompressionMethod> method_names = {
    {"fp16", CompressionMethod::Float16},  {"bf16", CompressionMethod::BFloat16},
    {"int8", CompressionMethod::Int8},     {"topk", CompressionMethod::TopK},
    {"mstopk", CompressionMethod::MsTopK}, {"randomk", CompressionMethod::RandomK},
    {"dgc", CompressionMethod::Dgc},       {"powersgd", CompressionMethod::PowerSgd},
};

const std::map<std::string, Aggregation> aggregation_names = {
    {"all-gather", Aggregation::AllGather},
    {"gtopk", Aggregation::GlobalTopK},
    {"hierarchical", Aggregation::Hierarchical},
};

template <typename Value>
Value read_name(const Json& json, const std::map<std::string, Value>& names,
                const std::string& key) {
  const auto found = json.is_string() ? names.find(json.get<std::string>()) : names.end();
  if (found != names.end()) return found->second;
  std::string all;
  for (const auto& [name, value] : names) all += (all.empty() ? "'" : ", '") + name + "'";
  WithReader::fail(key, "one of " + all);
}

template <typename Value>
std::string name_of(Value value, const std::map<std::string, Value>& names) {
  for (const auto& [name, named] : names) {
    if (named == value) return name;
  }
  return "";
}

/// Refuses `key` unless `fits`.
void only_with(WithReader& reader, const std::string& key, bool fits, const std::string& what) {
  if (fits || reader.find(key) == nullptr) return;
  WithReader::refuse("gradients." + key, "needs " + what);
}

Aggregation read_aggregation(const Json* name, CompressionMethod method) {
  const bool whole_matrices = method == CompressionMethod::PowerSgd;
  if (name == nullptr) return whole_matrices ? Aggregation::AllGather : Aggregation::Hierarchical;
  const Aggregation aggregation = read_name(*name, aggregation_names, "gradients.aggregation");
  if (aggregation == Aggregation::GlobalTopK && !sends_largest(method)) {
    WithReader::fail("gradients.aggregation",
                     "'all-gather' or 'hierarchical': 'gtopk' is for 'topk', 'mstopk' and 'dgc'");
  }
  if (aggregation == Aggregation::Hierarchical && whole_matrices) {
    WithReader::refuse("gradients.aggregation",
                       "is not an option of 'powersgd', which needs whole matrices on every rank");
  }
  return aggregation;
}

}  // namespace

std::optional<Compression> read_compression(WithReader& gradients) {
  const Json* name = gradients.find("compression");
  if (name == nullptr) {
    for (const char* key : {"density", "warmup_epochs", "aggregation", "rank", "clip"}) {
      only_with(gradients, key, false, "'compression'");
    }
    return {};
  }
  Compression c;
  c.method = read_name(*name, method_names, "gradients.compression");
  const bool is_dgc = c.method == CompressionMethod::Dgc;
  for (const char* key : {"density", "warmup_epochs"}) {
    only_with(gradients, key, is_sparse(c.method), "'compression' topk, mstopk, randomk or dgc");
  }
  only_with(gradients, "rank", c.method == CompressionMethod::PowerSgd, "'compression: powersgd'");
  only_with(gradients, "clip", is_dgc, "'compression: dgc'");
  c.density = gradients.number("density", 0, c.density);
  if (c.density <= 0 || c.density > 1) {
    WithReader::fail("gradients.density", "above 0 and at most 1");
  }
  c.warmup_epochs = gradients.count("warmup_epochs", 0, c.warmup_epochs);
  c.aggregation = read_aggregation(gradients.find("aggregation"), c.method);
  c.rank = gradients.count("rank", 1, c.rank);
  c.clip = gradients.number("clip", 0, c.clip);
  return c;
}

std::string to_text(const Compression& c) {
  std::string text = name_of(c.method, method_names);
  if (is_sparse(c.method)) text += ", density " + Json(c.density).dump();
  if (c.warmup_epochs > 0) text += ", warm-up " + std::to_string(c.warmup_epochs);
  if (c.method == CompressionMethod::PowerSgd) text += ", rank " + std::to_string(c.rank);
  if (c.momentum > 0) text += ", momentum " + Json(c.momentum).dump();
  if (c.clip > 0) text += ", clip " + Json(c.clip).dump();
  return text + ", " + name_of(c.aggregation, aggregation_names);
}

}  // namespace dlflow::runtime
