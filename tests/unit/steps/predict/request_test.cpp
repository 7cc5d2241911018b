#include "steps/predict/request.h"

#include "tests/support/catch.h"

using namespace dlflow;
using namespace dlflow::steps;

namespace {

Request parsed(Json more) {
  more.update({{"checkpoint", "step-000001"}, {"data", "photos"}});
  return parse_request(more);
}

}  // namespace

TEST_CASE("a request has defaults", "[predict]") {
  const Request request = parsed(Json::object());
  CHECK(request.data == "photos");
  CHECK(request.split == runtime::Split::Test);
  CHECK(request.format == PredictionFormat::Csv);
  CHECK(request.batch == 256);
  CHECK(request.origin.empty());
}

TEST_CASE("a request may say how the training made its samples", "[predict]") {
  CHECK(parsed({{"origin", {"resize 256", "crop 224"}}}).origin ==
        std::vector<std::string>{"resize 256", "crop 224"});
}

TEST_CASE("mistakes in a request are named", "[predict]") {
  CHECK_THROWS_WITH(parsed({{"shard", 2}, {"shards", 2}}),
                    Catch::Contains("'shard' is 2, but the 2 shards are numbered from 0"));
  CHECK_THROWS_WITH(parsed({{"format", "json"}}),
                    Catch::Contains("'format' must be 'csv' or 'npy'"));
  CHECK_THROWS_WITH(parsed({{"origin", {1}}}), Catch::Contains("'origin' must be a list of texts"));
}
