#include "engine/planner/measurement.h"

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::planner;

namespace {

Json minimal() {
  return Json::parse(R"({
    "format": "dlflow measurement 1", "model": "abc", "compute": "fp32", "source": "dlflow-train",
    "layers": [{"name": "conv1", "gradient_bytes": 1234, "dense_bytes_after_compression": null}],
    "points": [{"ranks": 2, "nodes": 1, "mode": "exact", "steps": 20, "at": 1790000000,
                "batch": 128, "leaves_per_rank": 4, "step_s": 0.031, "forward_s": [0.01],
                "backward_s": [0.02], "noise_scale": null}],
    "network": [{"ranks": 2, "nodes": 1, "algorithm": "shm", "bytes": 65536, "seconds": 0.0001}]
  })");
}

}  // namespace

TEST_CASE("a measurement is read with its derived values", "[planner]") {
  const Measurement read = measurement_from_json(minimal(), "m.json");
  CHECK(read.points[0].samples_per_rank == 64);
  CHECK(read.points[0].leaf_samples == 16);
  CHECK_FALSE(read.points[0].noise_scale);
  CHECK(read.network[0].algorithm == "shm");
}

TEST_CASE("a script has buckets, one share of samples on each rank, and no layers", "[planner]") {
  Json json = minimal();
  json["layers"] = Json::array();
  json["network"][0]["algorithm"] = nullptr;
  json["points"][0].update({{"batch", nullptr},
                            {"forward_s", Json::array()},
                            {"backward_s", Json::array()},
                            {"communication_wait_s", 0.011},
                            {"other_s", 0.02},
                            {"buckets", {{{"bytes", 1000}, {"ready_s", 0.015}}}}});
  const Measurement read = measurement_from_json(json, "m.json");
  CHECK(read.points[0].batch == 2);
  CHECK(read.points[0].samples_per_rank == 1);
  CHECK(read.points[0].backward_s == std::vector{0.031 - 0.011});
  CHECK(read.points[0].other_s == 0);
}

TEST_CASE("an invalid measurement is refused with the reason", "[planner]") {
  const auto refusal = [](const char* place, const Json& value) {
    Json json = minimal();
    json[Json::json_pointer(place)] = value;
    return test::error_of([&] { measurement_from_json(json, "m.json"); });
  };
  CHECK(refusal("/format", "x") ==
        "m.json: it is not a measurement in the format of this dlflow ('x'); measure the "
        "step again");
  CHECK(refusal("/points", Json::array()) == "m.json: it has no points; measure the step again");
  CHECK(refusal("/points/0/ranks", 0).find("no ranks") != std::string::npos);
  CHECK(refusal("/points/0/nodes", 3).find("no ranks") != std::string::npos);
  CHECK(refusal("/points/0/step_s", -1).find("no step time") != std::string::npos);
  CHECK(refusal("/points/0/batch", -1).find("no samples") != std::string::npos);
  CHECK(refusal("/points/0/forward_s", Json::array({1, 2})).find("2 layers, but the model has 1") !=
        std::string::npos);
  CHECK(refusal("/points/0/forward_s", Json::array({-1})).find("is not valid") !=
        std::string::npos);
  CHECK(refusal("/network/0/seconds", 0).find("network") != std::string::npos);
  CHECK(refusal("/compressors", {{{"method", "topk"},
                                  {"bytes", 0},
                                  {"message_bytes", 1},
                                  {"encode_s", 1},
                                  {"decode_s", 1}}})
            .find("a compression has no bytes") != std::string::npos);
  CHECK(refusal("/network/0/bytes", "x").find("m.json") == 0);
  CHECK(refusal("/points/0/ranks", "two").find("m.json") == 0);
  CHECK(test::error_of([] { measurement_from_json(Json::array(), "m.json"); }).find("m.json") == 0);
}

TEST_CASE("only files of the step itself are found", "[planner]") {
  const test::TempDir folder;
  const auto measurements = folder.path() / "measurements";
  std::filesystem::create_directories(measurements);
  for (const char* name : {"train-0123456789abcdef.json", "train-2-0123456789abcdef.json",
                           "train-0123456789abcdef.json.tmp", "other-0123456789abcdef.json"}) {
    std::ofstream(measurements / name) << "{}";
  }
  CHECK(measurement_files(folder.path(), "train") ==
        std::vector{measurements / "train-0123456789abcdef.json"});
  CHECK(measurement_files(folder.path() / "none", "train").empty());
}
