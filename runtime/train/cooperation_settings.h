#pragma once

#include <string>

#include "base/json.h"
#include "runtime/cooperation/options.h"

/// The key `cooperation` of a train step.
namespace dlflow::runtime {

/// Reads it out of a train step's `with:`; without the key, ranks are synchronous.
/// Throws Error{InvalidInput} naming the key that is wrong, also if it is one of those that need
/// ranks to be synchronous (`gradients`, `batch_norm: global`, `shard_optimizer`, `precision:
/// {reduction: exact}`), or on servers whole layers (`clip_norm`, `optimizer: {kind: lamb}`).
CooperationOptions read_cooperation(const Json& with);

/// "local_sgd every 8, ranks: 4": what decides the bits, for people and for who compares.
std::string describe(const CooperationOptions& options, int num_ranks);

}  // namespace dlflow::runtime
