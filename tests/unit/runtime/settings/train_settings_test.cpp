#include "runtime/settings/train_settings.h"

#include "base/error.h"
#include "runtime/settings/checkpoint_policy.h"
#include "runtime/settings/evaluate_settings.h"
#include "runtime/settings/parts.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_data.h"

using namespace dlflow;
using namespace dlflow::runtime;

namespace {

Json with(const Json& more) {
  Json json = {{"model", "m.yaml"}, {"data", "d"}, {"epochs", 3}, {"lr", 0.1}};
  json.update(more);
  return json;
}

std::string mistake(const Json& json) {
  return test::error_of([&] { parse_train_settings(json); });
}

}  // namespace

TEST_CASE("a key missing from a train step has a default", "[settings]") {
  const TrainSettings s = parse_train_settings(with(Json::object()));
  CHECK(global_batch(s, 3) == 128);
  CHECK(s.precision.exact);
  CHECK_FALSE(s.joint_batch_norm);
  CHECK(s.gradients == GradientTravel{DataType::Float32, true});
  CHECK(num_leaves(s, 3) == 4);
  CHECK(s.update.optimizer.momentum == 0.9);
  CHECK(validation_samples(s, 60000) == 5000);
  CHECK(validation_samples(s, 50000) == 5000);
  CHECK(validation_samples(s, 3080) == 308);
  CHECK(validation_samples(s, 9) == 0);
  CHECK(s.schedule == Schedule::Course::Cosine);
  CHECK_FALSE(s.normalize);
  CHECK(s.augmentation == Augmentation{});
}

TEST_CASE("every key of a train step is read", "[settings]") {
  const TrainSettings s =
      parse_train_settings(with({{"batch_per_rank", 32.0},
                                 {"precision", {{"reduction", "fast"}}},
                                 {"batch_norm", "global"},
                                 {"gradients", {{"wire", "bf16"}, {"priority", false}}},
                                 {"momentum", 0},
                                 {"weight_decay", 1e-4},
                                 {"warmup_epochs", 0.5},
                                 {"schedule", "constant"},
                                 {"seed", 7},
                                 {"validation", 0},
                                 {"augment", {"crop", "flip"}},
                                 {"normalize", {{"mean", 0.5}, {"std", {0.25}}}}}));
  CHECK(global_batch(s, 3) == 96);
  CHECK_FALSE(s.precision.exact);
  CHECK(s.joint_batch_norm);
  CHECK(s.gradients == GradientTravel{DataType::BFloat16, false});
  CHECK(num_leaves(s, 3) == 3);
  CHECK(s.update.optimizer.momentum == 0);
  CHECK(s.update.optimizer.weight_decay == 1e-4);
  CHECK(s.warmup_epochs == 0.5);
  CHECK(s.schedule == Schedule::Course::Constant);
  CHECK(s.seed == 7);
  CHECK(validation_samples(s, 60000) == 0);
  CHECK(s.augmentation == Augmentation{4, true});
  CHECK(s.normalize == PixelStatistics{{0.5}, {0.25}});
}

TEST_CASE("a wrong key is named", "[settings]") {
  CHECK(mistake(with({{"momentun", 0.9}})) ==
        "with: unknown key 'momentun'; did you mean 'momentum'?");
  CHECK(mistake(with({{"epochs", 2.5}})) == "with: 'epochs' must be a whole number of at least 1");
  for (const double beyond : {0x1p64, 1e300}) {
    CHECK(mistake(with({{"epochs", beyond}})) ==
          "with: 'epochs' must be a whole number below 2^64");
  }
  CHECK(mistake(with({{"lr", "fast"}})) == "with: 'lr' must be a number, not negative");
  CHECK(mistake(with({{"sampling", "weighted"}})) ==
        "with: 'sampling' must be 'shuffle', 'balanced' or a list of numbers above 0");
  CHECK(mistake(with({{"sampling", {1, 0}}})) ==
        "with: 'sampling' must be a list of numbers above 0, one for each class");
  CHECK(mistake(with({{"augment", {"rotate"}}})) ==
        "with: 'augment' must be a list of 'crop', 'flip' and mappings like {rotate: 15}");
  CHECK(mistake(with({{"augment", {{{"rotate", 0}}}}})) ==
        "with: 'augment.rotate' must be above 0 and at most 180.0");
  CHECK(mistake(with({{"augment", {"crop", {{"resized_crop", 0.5}}}}})) ==
        "with: 'augment' has 'crop' and 'resized_crop'; leave one out");
  CHECK(mistake(with({{"normalize", {{"mean", 0}, {"std", 0}}}})) ==
        "with: 'normalize.std' must be above 0");
  CHECK(mistake(with({{"batch", 1e12}})) == "with: 'batch' must be at most 4294967295");
  CHECK(mistake(with({{"batch_per_rank", 1e12}})) ==
        "with: 'batch_per_rank' must be at most 4294967295");
  CHECK(mistake(with({{"epochs", 3}, {"warmup_epochs", 3.5}})) ==
        "with: 'warmup_epochs' must be at most 'epochs', 3");
  CHECK(mistake({{"model", "m"}, {"data", "d"}, {"epochs", 1}}) == "with: 'lr' is missing");
  CHECK(mistake(with({{"accumulate", 1048577}})) == "with: 'accumulate' must be at most 1048576");
  CHECK(mistake(with({{"precision", {{"leaves", 1048577}}}})) ==
        "with: 'precision.leaves' must be at most 1048576");
}

TEST_CASE("the largest valid values are accepted", "[settings]") {
  const TrainSettings s = parse_train_settings(
      with({{"batch", UINT32_MAX}, {"epochs", 3}, {"warmup_epochs", 3}, {"accumulate", 1048576}}));
  CHECK(s.batch == UINT32_MAX);
  CHECK(s.warmup_epochs == 3);
  CHECK(global_batch(s, 1) == size_t{UINT32_MAX} << 20);
  CHECK(mistake(with({{"batch", uint64_t(UINT32_MAX) + 1}})) ==
        "with: 'batch' must be at most 4294967295");
}

TEST_CASE("statistics become a scale and a shift of the stored pixels", "[settings]") {
  const Dataset bytes = test::tiny_dataset(2);
  const Normalization n = normalization_from({{0.5}, {0.25}}, bytes);
  CHECK(n.scale[0] * 255 + n.shift[0] == Approx((1 - 0.5) / 0.25));
  CHECK_THROWS_AS(normalization_from({{0.5, 0.5}, {0.25}}, bytes), Error);
}

TEST_CASE("a checkpoint policy is read from its variables", "[settings]") {
  using Unit = CheckpointPolicy::Unit;
  CHECK(parse_checkpoint_policy("", "") == CheckpointPolicy{Unit::Epochs, 1, 2});
  CHECK(parse_checkpoint_policy("200 steps", "5") == CheckpointPolicy{Unit::Steps, 200, 5});
  CHECK(parse_checkpoint_policy("1800 seconds", "") == CheckpointPolicy{Unit::Seconds, 1800, 2});
  for (const char* bad : {"often", "0 steps", "3 parsecs", "3", "-1 epochs"}) {
    CHECK_THROWS_AS(parse_checkpoint_policy(bad, ""), Error);
  }
}

TEST_CASE("leaves have at least 32 samples unless their number is given", "[settings]") {
  const auto leaves = [](const Json& json) {
    const TrainSettings settings = parse_train_settings(with(json));
    CHECK(num_leaves(settings, 2) == num_leaves(settings, 5));
    return num_leaves(settings, 2);
  };
  CHECK(leaves({{"batch", 31}}) == 1);
  CHECK(leaves({{"batch", 100}}) == 2);
  CHECK(leaves({{"batch", 256}}) == 8);
  CHECK(leaves({{"batch", 4096}}) == 8);
  CHECK(leaves({{"batch", 64}, {"precision", {{"leaves", 7}}}}) == 7);
  CHECK(leaves({{"batch", 100}, {"accumulate", 3}}) == 6);
}

TEST_CASE("the wire type of gradients must suit the precision", "[settings]") {
  CHECK(mistake(with({{"gradients", {{"wire", "bf16"}}}})) ==
        "with: 'gradients.wire' must be 'fp32' unless 'precision' has 'reduction: fast'");
  CHECK(mistake(with({{"gradients", {{"wire", "int8"}}}})) ==
        "with: 'gradients.wire' must be 'fp32', 'fp16' or 'bf16'");
  CHECK(mistake(with({{"gradients", {{"priority", "high"}}}})) ==
        "with: 'gradients.priority' must be true or false");
}

TEST_CASE("precision is refused where it contradicts itself", "[settings]") {
  CHECK(mistake(with({{"precision", "exact"}})) == "with: 'precision' is not a JSON object");
  CHECK(mistake(with({{"precision", {{"reduction", "quick"}}}})) ==
        "with: 'precision.reduction' must be 'exact' or 'fast'");
  CHECK(mistake(with({{"precision", {{"leafs", 2}}}})) ==
        "with: unknown key 'precision.leafs'; did you mean 'leaves'?");
  CHECK(mistake(with({{"precision", {{"reduction", "fast"}, {"leaves", 2}}}})) ==
        "with: 'precision.leaves' is not an option of 'reduction: fast', which has one leaf per "
        "rank");
  CHECK(mistake(with({{"batch", 2}, {"batch_per_rank", 2}})) ==
        "with: 'batch_per_rank' cannot be used together with 'batch'");
}

TEST_CASE("accumulated batches form one step", "[settings]") {
  const TrainSettings s = parse_train_settings(with({{"batch_per_rank", 32},
                                                     {"accumulate", 4},
                                                     {"label_smoothing", 0.1},
                                                     {"precision", {{"reduction", "fast"}}}}));
  CHECK(global_batch(s, 3) == 32 * 3 * 4);
  CHECK(num_leaves(s, 3) == 3 * 4);
  CHECK(s.label_smoothing == 0.1);
  CHECK(mistake(with({{"accumulate", 2}, {"batch_norm", "global"}})) ==
        "with: 'accumulate' must be 1 with 'batch_norm: global', which needs all batches at once");
  CHECK(mistake(with({{"label_smoothing", 1}})) == "with: 'label_smoothing' must be less than 1");
}

TEST_CASE("the memory for results of layers is a size, or unlimited", "[settings]") {
  CHECK(parse_train_settings(with(Json::object())).activation_bytes == UINT64_MAX);
  CHECK(parse_train_settings(with({{"activation_memory", "2GiB"}})).activation_bytes == uint64_t{2}
                                                                                            << 30);
  CHECK(mistake(with({{"activation_memory", 0}})) ==
        "with: 'activation_memory' must be a size, such as 4GiB");
}

TEST_CASE("a number of loader threads is read, and refused if it is invalid", "[settings]") {
  CHECK_FALSE(parse_train_settings(with(Json::object())).loader_threads);
  CHECK(parse_train_settings(with({{"loader_threads", 3}})).loader_threads == size_t{3});
  CHECK(parse_evaluate_settings({{"checkpoint", "c"}, {"data", "d"}, {"loader_threads", 2}})
            .loader_threads == size_t{2});
  CHECK_THAT(mistake(with({{"loader_threads", 0}})), Catch::Contains("'loader_threads' must be"));
  CHECK(mistake(with({{"loader_threads", 257}})) == "with: 'loader_threads' must be at most 256");
}

TEST_CASE("gradients are compressed only with settings that fit together", "[settings]") {
  const auto compressed = [](const Json& gradients, const char* reduction = "fast") {
    return with({{"precision", {{"reduction", reduction}}}, {"gradients", gradients}});
  };
  CHECK(mistake(compressed({{"compression", "mstopk"}}, "exact")) ==
        "with: 'gradients.compression' needs 'precision: {reduction: fast}': "
        "sums are no longer exact");
  CHECK(mistake(compressed({{"compression", "zip"}})) ==
        "with: 'gradients.compression' must be 'bf16', 'dgc', 'fp16', 'int8', 'mstopk', "
        "'powersgd', 'randomk' or 'topk'");
  CHECK(mistake(compressed({{"compression", "int8"}, {"wire", "bf16"}})) ==
        "with: 'gradients.wire' cannot be used together with 'compression'");
  CHECK(mistake(compressed({{"density", 0.1}})) == "with: 'gradients.density' needs 'compression'");
  CHECK(mistake(compressed({{"compression", "int8"}, {"density", 0.1}})) ==
        "with: 'gradients.density' needs 'compression' topk, mstopk, randomk "
        "or dgc");
  CHECK(mistake(compressed({{"compression", "topk"}, {"density", 0}})) ==
        "with: 'gradients.density' must be above 0 and at most 1");
  CHECK(mistake(compressed({{"compression", "topk"}, {"rank", 4}})) ==
        "with: 'gradients.rank' needs 'compression: powersgd'");
  CHECK(mistake(compressed({{"compression", "topk"}, {"clip", 1}})) ==
        "with: 'gradients.clip' needs 'compression: dgc'");
  CHECK(mistake(compressed({{"compression", "randomk"}, {"aggregation", "gtopk"}})) ==
        "with: 'gradients.aggregation' must be 'all-gather' or 'hierarchical': 'gtopk' is for "
        "'topk', 'mstopk' and 'dgc'");
  CHECK(mistake(compressed({{"compression", "powersgd"}, {"aggregation", "hierarchical"}})) ==
        "with: 'gradients.aggregation' is not an option of 'powersgd', which needs whole "
        "matrices on every rank");
}

TEST_CASE("every key about compression is read", "[settings]") {
  const auto read = [](Json gradients) {
    const Json precision = {{"reduction", "fast"}};
    const TrainSettings settings =
        parse_train_settings(with({{"precision", precision}, {"gradients", gradients}}));
    return settings.gradients.compression.value();
  };
  CHECK(read({{"compression", "mstopk"},
              {"density", 0.05},
              {"warmup_epochs", 2},
              {"aggregation", "gtopk"}}) == Compression{.method = CompressionMethod::MsTopK,
                                                        .aggregation = Aggregation::GlobalTopK,
                                                        .density = 0.05,
                                                        .warmup_epochs = 2});
  CHECK(read({{"compression", "powersgd"}, {"rank", 4}}) ==
        Compression{.method = CompressionMethod::PowerSgd,
                    .aggregation = Aggregation::AllGather,
                    .rank = 4});
  const Compression dgc = read({{"compression", "dgc"}, {"clip", 2.5}});
  CHECK(dgc.clip == 2.5);
  CHECK(dgc.momentum == 0.9);
  CHECK(read({{"compression", "topk"}}).aggregation == Aggregation::Hierarchical);
}

TEST_CASE("each way to cooperate has its own keys and defaults", "[settings]") {
  using Way = CooperationOptions::Kind;
  const auto read = [](const Json& json) {
    return parse_train_settings(with({{"cooperation", json}}));
  };
  CHECK(parse_train_settings(with(Json::object())).cooperation.kind == Way::Synchronous);
  CHECK(read({{"kind", "synchronous"}}).precision.exact);

  const TrainSettings local = read({{"kind", "local_sgd"}, {"synchronous_epochs", 2}});
  CHECK(local.cooperation.kind == Way::LocalSgd);
  CHECK(local.cooperation.every == 8);
  CHECK(local.cooperation.synchronous_epochs == 2);
  CHECK_FALSE(local.precision.exact);
  CHECK(read({{"kind", "local_sgd"}, {"every", 3}}).cooperation.every == 3);

  const CooperationOptions elastic = read({{"kind", "elastic"}, {"rate", 0.5}}).cooperation;
  CHECK(elastic.kind == Way::Elastic);
  CHECK(elastic.every == 8);
  CHECK(elastic.rate == 0.5);
  CHECK(read({{"kind", "elastic"}}).cooperation.rate == 0.9);

  const CooperationOptions servers = read({{"kind", "parameter_server"}}).cooperation;
  CHECK(servers.kind == Way::ParameterServer);
  CHECK(servers.servers == 1);
  CHECK(servers.staleness == 4u);
  CHECK(read({{"kind", "parameter_server"}, {"staleness", 0}}).cooperation.staleness == 0u);
  CHECK_FALSE(
      read({{"kind", "parameter_server"}, {"staleness", "unbounded"}}).cooperation.staleness);

  CHECK(read({{"kind", "gossip"}}).cooperation.every == 1);
  CHECK(read({{"kind", "pairwise"}}).cooperation.every == 1);
}

TEST_CASE("a short text names the settings that influence the bits of a result", "[settings]") {
  const auto words = [](const Json& cooperation) {
    return how_gradients_are_added(
        parse_train_settings(with({{"cooperation", cooperation}, {"epochs", 1}})), 4);
  };
  CHECK(words({{"kind", "synchronous"}}) == "exact, leaves: 4");
  CHECK(words({{"kind", "local_sgd"}}) == "local_sgd every 8, ranks: 4");
  CHECK(words({{"kind", "local_sgd"}, {"synchronous_epochs", 2}}) ==
        "local_sgd every 8 from epoch 3 on, ranks: 4");
  CHECK(words({{"kind", "elastic"}}) == "elastic every 8, rate: 0.9, ranks: 4");
  CHECK(words({{"kind", "parameter_server"}, {"servers", 2}}) ==
        "parameter_server, servers: 2, staleness: 4, ranks: 4");
  CHECK(words({{"kind", "parameter_server"}, {"staleness", "unbounded"}}) ==
        "parameter_server, servers: 1, staleness: unbounded, ranks: 4");
  CHECK(words({{"kind", "gossip"}, {"every", 2}}) == "gossip every 2, ranks: 4");
  CHECK(words({{"kind", "pairwise"}}) == "pairwise every 1, ranks: 4");
}

TEST_CASE("in fast mode, that text includes how gradients are sent", "[settings]") {
  const auto words = [](Json more) {
    more["precision"] = {{"reduction", "fast"}};
    return how_gradients_are_added(parse_train_settings(with(more)), 2);
  };
  CHECK(words({{"batch", 64}}) == "fast, ranks: 2");
  CHECK(words({{"gradients", {{"priority", false}}}}) == "fast, ranks: 2");
  CHECK(words({{"gradients", {{"wire", "fp16"}}}}) == "fast, ranks: 2, wire: fp16");
  CHECK(words({{"gradients", {{"wire", "bf16"}}}, {"accumulate", 4}}) ==
        "fast, ranks: 2, accumulate: 4, wire: bf16");
  CHECK(words({{"gradients", {{"compression", "int8"}}}}) == "fast, ranks: 2, int8, hierarchical");
  const Json own_steps = {{"cooperation", {{"kind", "gossip"}}}, {"accumulate", 2}};
  CHECK(how_gradients_are_added(parse_train_settings(with(own_steps)), 3) ==
        "gossip every 1, ranks: 3, accumulate: 2");
}

TEST_CASE("keys that do not apply to a way to cooperate are refused", "[settings]") {
  const auto refusal = [](const Json& cooperation, const Json& more = Json::object()) {
    Json json = with(more);
    json["cooperation"] = cooperation;
    return mistake(json);
  };
  CHECK(refusal("gossip") == "with: 'cooperation' is not a JSON object");
  CHECK(
      refusal({{"kind", "gosip"}}) ==
      "with: 'cooperation.kind' must be 'synchronous', 'local_sgd', 'elastic', 'parameter_server', "
      "'gossip' or 'pairwise'");
  CHECK(refusal({{"kind", "elastic"}, {"rate", 1.5}}) ==
        "with: 'cooperation.rate' must be a number above 0, at most 1");
  CHECK(refusal({{"kind", "gossip"}, {"evry", 1}}) ==
        "with: unknown key 'cooperation.evry'; did you mean 'every'?");
  CHECK(refusal({{"kind", "gossip"}, {"staleness", 1}}) ==
        "with: 'cooperation.staleness' is not an option of 'kind: gossip'; it is for "
        "'parameter_server'");
  CHECK(refusal({{"kind", "synchronous"}, {"every", 2}}) ==
        "with: 'cooperation.every' is not an option of 'kind: synchronous'; it is for "
        "'local_sgd'");
  CHECK(refusal({{"kind", "local_sgd"}, {"every", 0}}) ==
        "with: 'cooperation.every' must be a whole number of at least 1");
  CHECK(refusal({{"kind", "parameter_server"}, {"staleness", "none"}}) ==
        "with: 'cooperation.staleness' must be a whole number of at least 0, or 'unbounded'");
  CHECK(refusal({{"kind", "local_sgd"}}, {{"precision", {{"reduction", "exact"}}}}) ==
        "with: 'precision.reduction' must be 'fast', or left out, with 'cooperation: {kind: "
        "local_sgd}': its bits depend on the number of ranks");
  CHECK(refusal({{"kind", "gossip"}}, {{"precision", {{"leaves", 4}}}}) ==
        "with: 'precision.leaves' cannot be used with 'cooperation: {kind: gossip}', which has "
        "one leaf per rank");
  CHECK(refusal({{"kind", "gossip"}}, {{"gradients", {{"wire", "bf16"}}}}) ==
        "with: 'gradients' cannot be used with 'cooperation: {kind: gossip}'; it is for "
        "'synchronous'");
  CHECK(refusal({{"kind", "gossip"}}, {{"shard_optimizer", true}}) ==
        "with: 'shard_optimizer' cannot be used with 'cooperation: {kind: gossip}'; it is for "
        "'synchronous'");
  CHECK(refusal({{"kind", "local_sgd"}}, {{"clip_norm", 1}}).empty());
  CHECK(refusal({{"kind", "parameter_server"}}, {{"clip_norm", 1}}) ==
        "with: 'clip_norm' cannot be used with 'cooperation: {kind: parameter_server}': no "
        "server has a whole layer's norm");
  CHECK(refusal({{"kind", "parameter_server"}}, {{"optimizer", {{"kind", "lamb"}}}}) ==
        "with: 'optimizer.kind' must be 'sgd', 'adam' or 'adamw' with 'cooperation: {kind: "
        "parameter_server}': no server has a whole layer's norm");
  CHECK(refusal({{"kind", "gossip"}}, {{"batch_norm", "global"}}) ==
        "with: 'batch_norm' must be 'leaf' with 'cooperation: {kind: gossip}': each rank makes "
        "steps of its own");
}
