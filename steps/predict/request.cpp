#include "steps/predict/request.h"

#include <algorithm>

#include "runtime/import/reshape.h"
#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::steps {
namespace {

using runtime::WithReader;

/// The text of `key`; empty if it is not given.
std::string optional_text(WithReader& reader, const std::string& key) {
  return reader.find(key) == nullptr ? "" : reader.text(key);
}

Origin read_origin(WithReader& reader) {
  Origin origin;
  const std::string resize = optional_text(reader, "resize"), crop = optional_text(reader, "crop");
  if (!resize.empty()) runtime::set_resizing(origin.reshaping, resize);
  if (!crop.empty()) origin.reshaping.crop = runtime::parse_picture_size(crop, "--crop");
  origin.text = optional_text(reader, "text");
  const Json* const features = reader.find("features");
  if (features == nullptr) return origin;
  const auto is_text = [](const Json& name) { return name.is_string(); };
  if (!features->is_array() || !std::ranges::all_of(*features, is_text)) {
    WithReader::fail("features", "a list of columns");
  }
  origin.features = *features;
  return origin;
}

}  // namespace

Request parse_request(const Json& with) {
  WithReader reader(with);
  Request request;
  request.checkpoint = reader.text("checkpoint");
  request.data = reader.text("data");
  request.split = WithReader::word<runtime::Split>(
      reader.find("split"), "split", "'test' or 'train'",
      {{"test", runtime::Split::Test}, {"train", runtime::Split::Train}});
  request.format = WithReader::word<PredictionFormat>(
      reader.find("format"), "format", "'csv' or 'npy'",
      {{"csv", PredictionFormat::Csv}, {"npy", PredictionFormat::Npy}});
  request.loader_threads = runtime::read_loader_threads(reader);
  request.batch = reader.count("batch", 1, request.batch);
  request.shard = reader.count("shard", 0, request.shard);
  request.shards = reader.count("shards", 1, request.shards);
  request.origin = read_origin(reader);
  reader.finish();
  if (request.shard >= request.shards) {
    WithReader::refuse("shard", "is " + std::to_string(request.shard) + ", but the " +
                                    std::to_string(request.shards) + " shards are numbered from 0");
  }
  return request;
}

}  // namespace dlflow::steps
