#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <array>

#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {

namespace {

using Kind = OptimizerOptions::Kind;

struct Known {
  Kind kind;
  const char* name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions&);
};

constexpr std::array<Known, OptimizerOptions::kKinds.size()> kKnown = {
    {{Kind::Sgd, "sgd", make_sgd},
     {Kind::Adam, "adam", make_adam},
     {Kind::AdamW, "adamw", make_adamw},
     {Kind::RmsProp, "rmsprop", make_rmsprop},
     {Kind::Adagrad, "adagrad", make_adagrad},
     {Kind::Lars, "lars", make_lars},
     {Kind::Lamb, "lamb", make_lamb}}};

const Known& known(Kind kind) { return *std::ranges::find(kKnown, kind, &Known::kind); }

}  // namespace

std::string name(OptimizerOptions::Kind kind) { return known(kind).name; }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  return known(options.kind).make(options);
}

}  // namespace dlflow::runtime
