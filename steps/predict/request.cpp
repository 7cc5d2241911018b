#include "steps/predict/request.h"

#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::steps {

Request parse_request(const Json& with) {
  using runtime::WithReader, runtime::Split;
  WithReader reader(with);
  Request request;
  request.checkpoint = reader.text("checkpoint");
  request.data = reader.text("data");
  request.split = reader.word<Split>("split", {{"test", Split::Test}, {"train", Split::Train}});
  request.format = reader.word<PredictionFormat>(
      "format", {{"csv", PredictionFormat::Csv}, {"npy", PredictionFormat::Npy}});
  request.loader_threads = runtime::read_loader_threads(reader);
  request.batch = reader.count("batch", 1, request.batch);
  request.shard = reader.count("shard", 0, request.shard);
  request.shards = reader.count("shards", 1, request.shards);
  for (const Json& line : reader.find("origin") ? *reader.find("origin") : Json::array()) {
    if (!line.is_string()) WithReader::fail("origin", "a list of texts");
    request.origin.push_back(line.get<std::string>());
  }
  reader.finish();
  if (request.shard < request.shards) return request;
  WithReader::refuse("shard", "is " + std::to_string(request.shard) + ", but the " +
                                  std::to_string(request.shards) + " shards are numbered from 0");
}

}  // namespace dlflow::steps
