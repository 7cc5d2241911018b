#include "base/json.h"
#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

constexpr WithReader::Words<CompressionMethod> kMethods = {
    {"bf16", CompressionMethod::BFloat16},   {"dgc", CompressionMethod::Dgc},
    {"fp16", CompressionMethod::Float16},    {"int8", CompressionMethod::Int8},
    {"mstopk", CompressionMethod::MsTopK},   {"powersgd", CompressionMethod::PowerSgd},
    {"randomk", CompressionMethod::RandomK}, {"topk", CompressionMethod::TopK},
};

constexpr WithReader::Words<Aggregation> kAggregations = {
    {"all-gather", Aggregation::AllGather},
    {"gtopk", Aggregation::GlobalTopK},
    {"hierarchical", Aggregation::Hierarchical},
};

/// Refuses `key` unless `fits`.
void only_with(WithReader& reader, const std::string& key, bool fits, const std::string& what) {
  if (fits || reader.find(key) == nullptr) return;
  WithReader::refuse("gradients." + key, "needs " + what);
}

Aggregation read_aggregation(WithReader& gradients, CompressionMethod method) {
  const bool whole_matrices = method == CompressionMethod::PowerSgd;
  if (gradients.find("aggregation") == nullptr) {
    return whole_matrices ? Aggregation::AllGather : Aggregation::Hierarchical;
  }
  const Aggregation aggregation = gradients.word("aggregation", kAggregations);
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
  if (gradients.find("compression") == nullptr) {
    for (const char* key : {"density", "warmup_epochs", "aggregation", "rank", "clip"}) {
      only_with(gradients, key, false, "'compression'");
    }
    return {};
  }
  Compression c;
  c.method = gradients.word("compression", kMethods);
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
  c.aggregation = read_aggregation(gradients, c.method);
  c.rank = gradients.count("rank", 1, c.rank);
  c.clip = gradients.number("clip", 0, c.clip);
  return c;
}

std::string to_text(const Compression& c) {
  std::string text = WithReader::name_of(c.method, kMethods);
  if (is_sparse(c.method)) text += ", density " + Json(c.density).dump();
  if (c.warmup_epochs > 0) text += ", warm-up " + std::to_string(c.warmup_epochs);
  if (c.method == CompressionMethod::PowerSgd) text += ", rank " + std::to_string(c.rank);
  if (c.momentum > 0) text += ", momentum " + Json(c.momentum).dump();
  if (c.clip > 0) text += ", clip " + Json(c.clip).dump();
  return text + ", " + WithReader::name_of(c.aggregation, kAggregations);
}

}  // namespace dlflow::runtime
