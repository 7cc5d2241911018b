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
  CHECK_FALSE(request.origin.reshaping.given());
}

TEST_CASE("a request may say how the training made its samples", "[predict]") {
  const Request request = parsed({{"resize", "256"}, {"crop", "224"}, {"features", {"b", "a"}}});
  CHECK(request.origin.reshaping ==
        runtime::Reshaping{.shorter_side = 256, .crop = runtime::PictureSize{224, 224}});
  const Origin recorded = origin_of({"resize 64x32", "feature a", "target price", "text note"});
  const Origin origin = recorded.replaced_by(request.origin);
  CHECK(origin.reshaping == request.origin.reshaping);
  CHECK(origin.features == std::vector<std::string>{"b", "a"});
  CHECK(origin.targets == std::vector<std::string>{"price"});
  CHECK(origin.text == "note");
  CHECK(recorded.replaced_by({}).reshaping.size == runtime::PictureSize{64, 32});
}

TEST_CASE("mistakes in a request are named", "[predict]") {
  CHECK_THROWS_WITH(parsed({{"shard", 2}, {"shards", 2}}),
                    Catch::Contains("'shard' is 2, but the 2 shards are numbered from 0"));
  CHECK_THROWS_WITH(parsed({{"format", "json"}}),
                    Catch::Contains("'format' must be 'csv' or 'npy'"));
  CHECK_THROWS_WITH(parsed({{"features", "a"}}), Catch::Contains("'features' must be a list"));
  CHECK_THROWS_WITH(parsed({{"crop", "wide"}}), Catch::Contains("--crop: 'wide' is not a size"));
}
