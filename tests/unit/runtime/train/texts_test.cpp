#include <cmath>

#include "base/error.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/binary_writer.h"
#include "runtime/train/evaluation.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/unit/runtime/train/tiny_job.h"

/// Tests training on texts of unequal length.
using namespace dlflow;
using namespace dlflow::runtime;
using test::kGoOn;
using test::newest_bits;
using test::train_on;

namespace {

std::string model_text(const std::string& attention = "heads: 2") {
  return "name: m\ninput: [12]\nloss: next_token\nlayers:\n"
         "- embedding: {name: t, vocabulary: 7, features: 8}\n- positions: {name: p}\n"
         "- layer_norm\n- linear: {features: 24}\n- attention: {name: a, " +
         attention +
         "}\n- linear: {features: 8}\n- dropout: {rate: 0.1}\n- add: {from: p}\n"
         "- linear: {features: 7, tied: t, bias: false}\n";
}

TrainingJob texts_job(const std::filesystem::path& folder, uint64_t epochs,
                      const std::string& model = model_text(),
                      const SampleSource& source = test::tiny_texts(255)) {
  TrainingJob job = test::tiny_job(folder, epochs);
  job.settings.augmentation = {};
  job.model = parse_model(model, "m.yaml");
  write_binary_dataset(folder / "train.dlset", source, 0, source.size(), 64);
  job.data = read_binary_dataset(folder / "train.dlset");
  return job;
}

/// Evaluates `job`'s data with untrained weights, on two ranks.
auto loss_with(const TrainingJob& job, size_t batch) {
  return test::on_ranks(2, [&](Communicator& comm) {
    NetworkSet networks(job.model, int64_t(batch), Network::Mode::Inference);
    HugeBuffer weights(networks.layout()->size());
    initialise(*networks.layout(), 3, weights.floats());
    return evaluate(comm, job.model, inference_with(networks, weights.floats()),
                    {job.data, Normalization{{1}, {0}}, batch});
  })[0];
}

std::string bits_on(int ranks) {
  const test::TempDir dir;
  const auto ends = train_on(ranks, texts_job(dir.path(), 2));
  return newest_bits(dir.path()) + ends[0].summary.at("loss").dump() +
         ends[0].summary.at("perplexity").dump();
}

std::string encoder_text(const std::string& end = "- mean_pool\n") {
  return "name: m\ninput: [12]\nlayers:\n"
         "- embedding: {name: t, vocabulary: 7, features: 8}\n- positions: {name: p}\n"
         "- layer_norm\n- linear: {features: 24}\n- attention: {heads: 2, causal: false}\n"
         "- linear: {features: 8}\n- dropout: {rate: 0.1}\n- add: {from: p}\n" +
         end + "- linear: {features: 3}\n";
}

TrainingJob classes_job(const std::filesystem::path& folder, uint64_t epochs) {
  return texts_job(folder, epochs, encoder_text(), test::tiny_text_classes(255));
}

}  // namespace

TEST_CASE("classes of texts train with the same bits on any number of ranks",
          "[trainer][exact][texts]") {
  const auto bits = [](int ranks) {
    const test::TempDir dir;
    const auto ends = train_on(ranks, classes_job(dir.path(), 2));
    return newest_bits(dir.path()) + ends[0].summary.at("loss").dump() +
           ends[0].summary.at("f1").dump();
  };
  const std::string alone = bits(1);
  CHECK(bits(2) == alone);
  CHECK(bits(3) == alone);
}

TEST_CASE("a network learns the classes of texts, even by local SGD", "[trainer][texts]") {
  const test::TempDir dir;
  TrainingJob job = classes_job(dir.path(), 30);
  job.settings.lr = 0.05;
  job.settings.validation = 50;
  if (GENERATE(false, true)) job.settings.cooperation.kind = CooperationOptions::Kind::LocalSgd;
  const Json summary = train_on(2, job)[0].summary;
  CHECK(summary.at("accuracy") > 0.8);  // 0.33 by chance
  CHECK(summary.at("tokens_per_s") > 0);
}

TEST_CASE("the loss of texts with classes is the mean over texts", "[trainer][texts]") {
  const test::TempDir dir;
  const TrainingJob job = classes_job(dir.path(), 1);
  CHECK(loss_with(job, 1).loss == Approx(loss_with(job, 250).loss).epsilon(1e-6));
  CHECK(loss_with(job, 1).predicted == loss_with(job, 7).predicted);
}

TEST_CASE("classes of texts and networks that do not fit are refused by name", "[trainer][texts]") {
  const test::TempDir dir;
  Dataset classes = classes_job(dir.path(), 1).data, texts = texts_job(dir.path(), 1).data;
  const auto refusal = [](const std::string& model, Dataset& data) {
    return test::error_of([&] { require_fitting(parse_model(model, "m.yaml"), data, "the data"); });
  };
  CHECK(refusal(encoder_text(), classes).empty());
  CHECK_THAT(refusal(encoder_text("- flatten: {name: f}\n"), classes),
             Catch::Contains("layer 'f' (flatten) is neither computed position by position"));
  CHECK_THAT(refusal(model_text(), classes),
             Catch::Contains("the data has texts with classes (packed with --labels)"));
  CHECK_THAT(refusal(encoder_text(), texts), Catch::Contains("pack them with --labels folders"));
}

TEST_CASE("texts of unequal length train with the same bits on any number of ranks",
          "[trainer][exact][texts]") {
  const std::string alone = bits_on(1);
  const int ranks = GENERATE(1, 2, 3);
  CHECK(bits_on(ranks) == alone);
}

TEST_CASE("a run on texts goes on within an epoch, on another number of ranks",
          "[trainer][exact][texts]") {
  const test::TempDir whole, parts;
  train_on(1, texts_job(whole.path(), 2));
  test::train_in_parts(texts_job(parts.path(), 2), {1, 2, 3, 1, 2, 3, 1, 2, 3, 2});
  CHECK(newest_bits(parts.path()) == newest_bits(whole.path()));
}

TEST_CASE("a network learns from texts of unequal length", "[trainer][texts]") {
  const test::TempDir dir;
  TrainingJob job = texts_job(dir.path(), 20);
  job.settings.lr = 0.1;
  job.settings.validation = 50;
  const Json summary = train_on(2, job)[0].summary;
  CHECK(summary.at("loss") < 1.2);  // 0.69 for two equal choices, 1.95 for seven
  CHECK(summary.at("tokens_per_s") > 0);
}

TEST_CASE("the loss is the mean over real tokens with any padding", "[trainer][texts]") {
  const test::TempDir dir;
  const TrainingJob job = texts_job(dir.path(), 1);
  // Computed by hand, with each text alone and without padding.
  NetworkSet networks(job.model, 1, Network::Mode::Inference);
  HugeBuffer weights(networks.layout()->size());
  initialise(*networks.layout(), 3, weights.floats());
  networks.use_weights(weights.floats());
  double sum = 0;
  size_t targets = 0;
  for (size_t i = 0; i < job.data.size(); ++i) {
    const auto text = std::get<EncodedImages>(job.data.pixels)[i];
    const AlignedFloats tokens = make_aligned_floats(text.size());
    std::copy(text.begin(), text.end(), tokens.get());
    const uint32_t label = 0;
    Network& network = networks.get(1, 0, int64_t(text.size()));
    const BatchResult result = network.forward({tokens.get(), text.size()}, {&label, 1});
    sum += result.loss_sum * double(text.size() - 1);  // the mean, since no length is given
    targets += size_t(result.num_targets);
  }
  CHECK(loss_with(job, 1).loss == Approx(sum / double(targets)).epsilon(1e-6));
  CHECK(loss_with(job, 250).loss == Approx(sum / double(targets)).epsilon(1e-6));
  CHECK(loss_with(job, 7).perplexity == Approx(std::exp(sum / double(targets))).epsilon(1e-6));
}

TEST_CASE("networks in which padding would change a text are refused by name", "[trainer][texts]") {
  const test::TempDir dir;
  Dataset data = texts_job(dir.path(), 1).data;
  const auto refusal = [&](const std::string& text) {
    return test::error_of([&] { require_fitting(parse_model(text, "m.yaml"), data, "the data"); });
  };
  CHECK(refusal(model_text()).empty());
  CHECK_THAT(refusal(model_text("heads: 2, causal: false")),
             Catch::Contains("layer 'a' (attention) looks at the positions behind"));
  std::string ignoring = model_text();
  ignoring.insert(ignoring.find("layers:"), "ignored_token: 0\n");
  CHECK_THAT(refusal(ignoring), Catch::Contains("has 'ignored_token'"));
  CHECK_THAT(refusal("name: m\ninput: [12]\nlayers:\n- embedding: {name: t, vocabulary: 7, "
                     "features: 8}\n- flatten\n- linear: {features: 7}\n"),
             Catch::Contains("only 'loss: next_token'"));
}

TEST_CASE("ranks without synchronous steps are refused for texts", "[trainer][texts]") {
  const test::TempDir dir;
  TrainingJob job = texts_job(dir.path(), 1);
  job.settings.cooperation.kind = CooperationOptions::Kind::LocalSgd;
  ThreadGroup group(1);
  CHECK_THROWS_WITH(train(group.communicator(0), job, kGoOn),
                    Catch::Contains("'cooperation' counts samples"));
}
