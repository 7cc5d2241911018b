#include "runtime/fit/fit.h"

#include "base/error.h"
#include "runtime/fit/measures.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Model model(const std::string& input, int features, const std::string& loss) {
  const bool has_pictures = input.find(',') != input.npos;
  return parse_model("name: m\ninput: " + input + "\nloss: " + loss + "\nlayers:\n" +
                         (has_pictures ? "  - flatten\n" : "") +
                         "  - linear: {features: " + std::to_string(features) + "}\n",
                     "m.yaml");
}

std::string error_of(const Model& model, const Dataset& dataset, Purpose purpose = Purpose::Learn) {
  return test::error_of([&] { require_fit(model, dataset, "set", purpose); }, Errc::InvalidInput);
}

const Dataset kClasses = make_dataset({2, 1, 1}, 3, std::vector<uint8_t>{1, 2, 3, 4}, {2, 0}),
              kNumbers = make_dataset({2, 1, 1}, std::vector<uint8_t>{1, 2, 3, 4}, {1, 0.5f}, 1),
              kBits = make_dataset({2, 1, 1}, std::vector<uint8_t>{1, 2}, {1, 0}, 2);

}  // namespace

TEST_CASE("a network and matching data are accepted", "[fit]") {
  for (const char* input : {"[2, 1, 1]", "[2]"}) {
    CHECK(error_of(model(input, 3, "softmax_cross_entropy"), kClasses).empty());
    CHECK(error_of(model(input, 1, "huber"), kNumbers).empty());
    CHECK(error_of(model(input, 2, "bce"), kBits).empty());
  }
  CHECK(error_of(model("[2]", 2, "reconstruction"), kNumbers).empty());
  CHECK(error_of(model("[2]", 2, "reconstruction"), kClasses).empty());
}

TEST_CASE("a network and data that do not match are refused with the reason", "[fit]") {
  CHECK(error_of(model("[3]", 3, "softmax_cross_entropy"), kClasses) ==
        "model 'm' takes (B,3), but set has (B,2,1,1); write input: [2] in the model file");
  CHECK(error_of(model("[2]", 2, "softmax_cross_entropy"), kClasses) ==
        "model 'm' has 2 classes, but set has the label 2 (sample 0); its last layer must give a "
        "score for each class");
  CHECK_THAT(error_of(model("[2]", 2, "softmax_cross_entropy"), kNumbers),
             Catch::Contains("which needs labels, but set has 1 targets a sample, not the shares "
                             "of 2 classes"));
  CHECK_THAT(error_of(model("[2]", 1, "mse"), kClasses),
             Catch::Contains("which needs targets, but set has labels"));
  CHECK_THAT(error_of(model("[2]", 2, "mse"), kNumbers),
             Catch::Contains("gives 2 numbers a sample, but set has 1 targets"));
  CHECK_THAT(error_of(model("[2]", 1, "bce"), kNumbers),
             Catch::Contains("sample 1 of set has 0.5"));
}

TEST_CASE("more scores than classes cause a note", "[fit]") {
  CHECK(note_on_classes(model("[2]", 3, "softmax_cross_entropy"), kClasses, "set").empty());
  CHECK(note_on_classes(model("[2]", 4, "softmax_cross_entropy"), kClasses, "set") ==
        "model 'm' gives 4 scores, and set has 3 classes; give its last layer 3");
  CHECK(note_on_classes(model("[2]", 4, "mse"), kNumbers, "set").empty());
}

TEST_CASE("targets are shares of classes if each sample's add up to 1", "[fit]") {
  const Model two = model("[2]", 2, "softmax_cross_entropy");
  const auto set = [](float first, float second) {
    return make_dataset({2, 1, 1}, std::vector<uint8_t>{1, 2, 3, 4}, {0, 1, first, second}, 2);
  };
  CHECK(error_of(two, set(0.3f, 0.7f)).empty());
  CHECK(error_of(two, set(0.3f, 0.7002f)).empty());  // rounded
  CHECK_THAT(error_of(two, set(0.3f, 0.69f)),
             Catch::Contains("those of sample 1 of set add up to 0.99"));
  CHECK_THAT(error_of(two, set(-0.5f, 1.5f)),
             Catch::Contains("those of sample 1 of set are not all 0 or more"));
  CHECK_THAT(error_of(two, set(std::nanf(""), 1)), Catch::Contains("are not all 0 or more"));
}

TEST_CASE("losses of pixels need masks, and masks need such a loss", "[fit]") {
  const auto network = [](const std::string& loss, int classes) {
    return parse_model("name: m\ninput: [1, 2, 2]\nloss: " + loss +
                           "\nlayers:\n  - conv2d: {channels: " + std::to_string(classes) +
                           ", kernel: 1}\n",
                       "m.yaml");
  };
  Dataset masks{{1, 2, 2}, 3, PixelRows<uint8_t>({1, 2, 3, 4, 0, 1, 2, 255}, 8), {{0}}};
  masks.has_masks = true;
  const Dataset labels = make_dataset({1, 2, 2}, 3, std::vector<uint8_t>{1, 2, 3, 4}, {2});
  for (const std::string loss : {"pixel_cross_entropy", "dice", "pixel_cross_entropy_and_dice"}) {
    CHECK(error_of(network(loss, 3), masks).empty());
    CHECK(error_of(network(loss, 4), masks).empty());
    CHECK(error_of(network(loss, 2), masks) ==
          "model 'm' has 2 classes, but set has masks of 3; its last layer must give a score for "
          "each of them");
    CHECK(error_of(network(loss, 3), labels) ==
          "model 'm' has 'loss: " + loss +
              "', which needs a class per pixel, but set has labels; pack it with masks (dlflow "
              "data pack --help)");
    CHECK(error_of(network(loss, 3), labels, Purpose::Predict).empty());
    CHECK_FALSE(error_of(network(loss, 2), masks, Purpose::Predict).empty());
  }
  CHECK(error_of(network("reconstruction", 1), masks).empty());
  CHECK_THAT(error_of(model("[4]", 3, "softmax_cross_entropy"), masks),
             Catch::Contains("but set has a class per pixel; write 'loss: pixel_cross_entropy'"));
  CHECK_THAT(error_of(model("[4]", 3, "mse"), masks), Catch::Contains("has a class per pixel"));
}

TEST_CASE("a validation split has to leave samples for training", "[fit]") {
  require_training_samples(2, 1);
  CHECK_THROWS_WITH(require_training_samples(2, 2),
                    "with: 'validation' holds out 2 of 2 samples; nothing is left to train on");
}

TEST_CASE("a vocabulary that is too small for the tokens is refused", "[fit]") {
  Dataset tokens = make_dataset({1, 1, 2}, 300, std::vector<float>{1, 299}, {0});
  tokens.tokenizer = std::string(32, 'a');
  const auto reader = [](int vocabulary, int scores) {
    return parse_model(
        "name: m\ninput: [2]\nloss: next_token\nlayers:\n  - embedding: {name: e, "
        "vocabulary: " +
            std::to_string(vocabulary) +
            ", features: 4}\n  - linear: {features: " + std::to_string(scores) + "}\n",
        "m.yaml");
  };
  CHECK(error_of(reader(300, 300), tokens).empty());
  CHECK(error_of(reader(256, 300), tokens) ==
        "model 'm' has 'vocabulary: 256' in 'e', but set has 300 tokens; write 'vocabulary: 300'");
  CHECK(
      error_of(reader(301, 256), tokens) ==
      "model 'm' gives scores of 256 tokens, but set has 300; give the last layer 'features: 300'");
  CHECK(error_of(model("[2]", 300, "softmax_cross_entropy"), tokens) ==
        "model 'm' reads pictures or numbers, but set has tokens of text; begin it with an "
        "'embedding'");
}

TEST_CASE("a metric is refused if only other networks have it, or if it is mistyped",
          "[measures]") {
  const auto refused = [](const std::string& loss, const std::string& metric) -> std::string {
    try {
      refuse_foreign_metric(model("[4]", 3, loss), "require", metric);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  CHECK(refused("softmax_cross_entropy", "rmse") ==
        "'require' names 'rmse', which model 'm' does not have; it has loss, accuracy, f1, "
        "auc");
  CHECK(refused("mse", "acuracy").empty());  // not similar to any metric of the model
  CHECK(refused("softmax_cross_entropy", "acuracy").ends_with("; did you mean 'accuracy'?"));
  for (const char* metric : {"accuracy", "auc", "accuracy_of_trouser", "samples", "images_per_s",
                             "ranks", "epochs", "step", "best_epoch", "data_wait_s"}) {
    CHECK(refused("softmax_cross_entropy", metric).empty());
  }
  for (const char* metric : {"accuracy", "accuracy_of_3", "iou_of_sky", "top5", "bits_per_byte"}) {
    CHECK_FALSE(refused("mse", metric).empty());
  }
  CHECK(refused("mse", "mae").empty());
}
