#include "runtime/settings/update.h"

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/error_of.h"

using namespace dlflow;
using namespace dlflow::runtime;
using Kind = OptimizerOptions::Kind;

namespace {

UpdateSettings read(const Json& with) {
  WithReader reader(with);
  const UpdateSettings settings = read_update(reader);
  reader.finish();
  return settings;
}

std::string update_mistake(const Json& with) {
  return test::error_of([&] { read(with); });
}

}  // namespace

TEST_CASE("the default optimizer is SGD with momentum", "[settings]") {
  CHECK(read(Json::object()) == UpdateSettings{});
  CHECK(read(Json::object()).optimizer.kind == Kind::Sgd);
}

TEST_CASE("momentum belongs to sgd and lars", "[settings]") {
  const Json with = {{"optimizer", {{"kind", "adam"}}}, {"momentum", 0.5}};
  CHECK_THAT(update_mistake(with), Catch::Contains("'momentum'") && Catch::Contains("adam"));
  CHECK(update_mistake({{"optimizer", {{"kind", "adam"}}}, {"momentum", 0.9}})
            .empty());  // as in workflows
  CHECK(read({{"optimizer", {{"kind", "lars"}}}, {"momentum", 0.5}}).optimizer.momentum == 0.5);
}

TEST_CASE("momentum is below 1", "[settings]") {
  CHECK(read({{"momentum", 0.999}}).optimizer.momentum == 0.999);
  const Json with = {{"momentum", GENERATE(1, 1.5)}};
  CHECK(update_mistake(with) ==
        "with: 'momentum' must be below 1: otherwise steps grow without bound");
}

TEST_CASE("weight decay follows the optimizer's paper by default", "[settings]") {
  const auto decays_vectors = [](const Json& with) { return read(with).decays_vectors; };
  CHECK(decays_vectors(Json::object()));
  CHECK(decays_vectors({{"optimizer", {{"kind", "adamw"}}}}));
  const std::string kind = GENERATE("lars", "lamb");
  CHECK_FALSE(decays_vectors({{"optimizer", {{"kind", kind}}}}));
  CHECK(decays_vectors({{"optimizer", {{"kind", kind}}}, {"decay", "all"}}));
  CHECK_FALSE(decays_vectors({{"decay", "weights"}}));
  CHECK(update_mistake({{"decay", "biases"}}) == "with: 'decay' must be 'weights' or 'all'");
}

TEST_CASE("an optimizer is read with its own keys", "[settings]") {
  const OptimizerOptions adamw =
      read({{"optimizer", {{"kind", "adamw"}, {"betas", {0.8, 0.99}}, {"eps", 1e-3}}},
            {"weight_decay", 0.1}})
          .optimizer;
  CHECK(
      adamw ==
      OptimizerOptions{
          .kind = Kind::AdamW, .weight_decay = 0.1, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3});
  CHECK(read({{"optimizer", {{"kind", "adam"}}}}).optimizer.epsilon == 1e-8);
  CHECK(read({{"optimizer", {{"kind", "lamb"}}}}).optimizer.epsilon == 1e-6);
  CHECK(read({{"optimizer", {{"kind", "lars"}, {"trust", 0.02}}}}).optimizer.trust == 0.02);
  CHECK(read({{"optimizer", {{"kind", "sgd"}, {"nesterov", true}}}}).optimizer.nesterov);
}

TEST_CASE("rmsprop and adagrad have PyTorch's constants", "[settings]") {
  CHECK(read({{"optimizer", {{"kind", "rmsprop"}}}}).optimizer.alpha == 0.99);
  CHECK(read({{"optimizer", {{"kind", "rmsprop"}, {"alpha", 0.5}}}}).optimizer.alpha == 0.5);
  CHECK(read({{"optimizer", {{"kind", "rmsprop"}}}}).optimizer.epsilon == 1e-8);
  CHECK(read({{"optimizer", {{"kind", "adagrad"}}}}).optimizer.epsilon == 1e-10);
  CHECK(update_mistake({{"optimizer", {{"kind", "rmsprop"}, {"alpha", 1}}}}) ==
        "with: 'optimizer.alpha' must be less than 1");
  CHECK(update_mistake({{"optimizer", {{"kind", "adagrad"}, {"alpha", 0.5}}}}) ==
        "with: 'optimizer.alpha' is not an option of 'adagrad'");
  CHECK(update_mistake({{"optimizer", {{"kind", "adagrad"}}}, {"momentum", 0.5}}) ==
        "with: 'momentum' is not an option of 'adagrad'");
}

TEST_CASE("unknown keys of an optimizer are named", "[settings]") {
  CHECK(update_mistake({{"optimizer", "adam"}}) == "with: 'optimizer' is not a JSON object");
  CHECK(update_mistake({{"optimizer", Json::object()}}) ==
        "with: 'optimizer.kind' must be 'sgd', 'adam', 'adamw', 'rmsprop', "
        "'adagrad', 'lars' or 'lamb'");
  CHECK(update_mistake({{"optimizer", {{"kind", "sgd"}, {"betas", {0.9, 0.999}}}}}) ==
        "with: 'optimizer.betas' is not an option of 'sgd'");
  CHECK(update_mistake({{"optimizer", {{"kind", "adam"}, {"betas", {0.9, 1}}}}}) ==
        "with: 'optimizer.betas' must be two numbers from 0 to less than 1");
  CHECK(update_mistake({{"optimizer", {{"kind", "adam"}, {"beta", 1}}}}) ==
        "with: unknown key 'optimizer.beta'; did you mean 'betas'?");
}

TEST_CASE("settings for the use of gradients are read", "[settings]") {
  const UpdateSettings settings = read({{"clip_norm", 2},
                                        {"shard_optimizer", true},
                                        {"accumulate", 4},
                                        {"lr_scaling", "sqrt"},
                                        {"base_batch", 128}});
  CHECK(settings.clip_norm == 2.0);
  CHECK(settings.shard_optimizer);
  CHECK(settings.accumulate == 4);
  CHECK(settings.lr_scaling == RateScaling::Sqrt);
  CHECK(settings.base_batch == 128);
  CHECK(update_mistake({{"clip_norm", 0}}) == "with: 'clip_norm' must be above 0");
  CHECK(update_mistake({{"accumulate", 0}}) ==
        "with: 'accumulate' must be a whole number of at least 1");
  CHECK(update_mistake({{"lr_scaling", "cubic"}}) ==
        "with: 'lr_scaling' must be 'linear' or 'sqrt'");
  CHECK(update_mistake({{"lr_scaling", "sqrt"}}) == "with: 'base_batch' is missing");
  CHECK(update_mistake({{"base_batch", 64}}) == "with: 'base_batch' needs 'lr_scaling'");
}
