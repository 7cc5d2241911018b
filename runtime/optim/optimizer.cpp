#include "runtime/optim/optimizer.h"

#include "base/error.h"
#include "runtime/optim/optimizers.h"

namespace dlflow::runtime {

std::string name(OptimizerOptions::Kind kind) {
  switch (kind) {
    case OptimizerOptions::Kind::Sgd:
      return "sgd";
    case OptimizerOptions::Kind::Adam:
      return "adam";
    case OptimizerOptions::Kind::AdamW:
      return "adamw";
    case OptimizerOptions::Kind::RmsProp:
      return "rmsprop";
    case OptimizerOptions::Kind::Adagrad:
      return "adagrad";
    case OptimizerOptions::Kind::Lars:
      return "lars";
    case OptimizerOptions::Kind::Lamb:
      return "lamb";
  }
  DLFLOW_CHECK(false);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  switch (options.kind) {
    case OptimizerOptions::Kind::Sgd:
      return make_sgd(options);
    case OptimizerOptions::Kind::Adam:
      return make_adam(options);
    case OptimizerOptions::Kind::AdamW:
      return make_adamw(options);
    case OptimizerOptions::Kind::RmsProp:
      return make_rmsprop(options);
    case OptimizerOptions::Kind::Adagrad:
      return make_adagrad(options);
    case OptimizerOptions::Kind::Lars:
      return make_lars(options);
    case OptimizerOptions::Kind::Lamb:
      return make_lamb(options);
  }
  DLFLOW_CHECK(false);
}

}  // namespace dlflow::runtime
