#include "steps/predict/prediction_file.h"

#include "base/file.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
using namespace dlflow::steps;
using runtime::parse_model;

namespace {

runtime::Model model_of(int scores, const std::string& loss = "softmax_cross_entropy") {
  return parse_model("name: m\ninput: [2]\nloss: " + loss +
                         "\nlayers:\n- linear: {features: " + std::to_string(scores) + "}\n",
                     "m.yaml");
}

/// The file of two samples with `scores`.
std::string written(const PredictionFile& format, const std::vector<float>& scores) {
  const test::TempDir dir;
  const std::vector<uint32_t> labels = {1, 0};
  const std::string rows = format.rows({0, labels, {}, scores});
  const std::string_view parts[] = {rows};
  runtime::FileWriter file(dir.path() / "out");
  format.write(file, 2, parts);
  file.publish();
  return read_file(dir.path() / "out");
}

NewSamples samples_of(const std::vector<std::string>& targets = {}) {
  return {"file", {"a, b.png", "c.png"}, targets, {"", ""}, {}};
}

}  // namespace

TEST_CASE("new samples are rows of names, classes and scores", "[predict]") {
  const auto model = model_of(2);
  NewSamples samples = samples_of();
  const auto format = prediction_file(PredictionFormat::Csv, model, {"cat", "dog"}, &samples);
  CHECK(written(*format, {0, 0, 0, 2}) ==
        "file,class,score\n\"a, b.png\",cat,0.500000\nc.png,dog,0.880797\n");
  samples.faults[0] = "unreadable";
  CHECK(written(*format, {0, 0, 0, 2}) == "file,class,score\nc.png,dog,0.880797\n");
}

TEST_CASE("predicted numbers of new samples are in columns with the names of the targets",
          "[predict]") {
  const auto model = model_of(2, "mse");
  const NewSamples named = samples_of({"price", "age"}), unnamed = samples_of();
  CHECK(written(*prediction_file(PredictionFormat::Csv, model, {}, &named), {1, 2, 3, 4.5}) ==
        "file,price,age\n\"a, b.png\",1,2\nc.png,3,4.5\n");
  CHECK_THAT(written(*prediction_file(PredictionFormat::Csv, model, {}, &unnamed), {1, 2, 3, 4}),
             Catch::StartsWith("file,prediction_0,prediction_1\n"));
}

TEST_CASE("samples of a data set are rows of numbers, labels and predictions", "[predict]") {
  const auto model = model_of(2);
  CHECK(written(*prediction_file(PredictionFormat::Csv, model, {"cat"}), {0, 0, 0, 2}) ==
        "sample,label,prediction,probability\n0,1,cat,0.500000\n1,cat,1,0.880797\n");
}

TEST_CASE("an .npy file has all scores", "[predict]") {
  const auto model = model_of(2);
  const std::string file =
      written(*prediction_file(PredictionFormat::Npy, model, {}), {0, 0, 0, 2});
  CHECK_THAT(file, Catch::Contains("'descr': '<f4'") && Catch::Contains("'shape': (2, 2,)"));
  CHECK(file.size() % 64 == 4 * sizeof(float));
}
