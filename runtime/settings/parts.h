#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/compress/compression.h"
#include "runtime/cooperation/options.h"
#include "runtime/data/augment.h"
#include "runtime/settings/with_reader.h"

/// The keys of `with:` that have rules of their own.
namespace dlflow::runtime {

/// Reads `augment:` of a train step; nothing is changed without it. Throws Error{InvalidInput}
/// naming the key that is wrong.
Augmentation read_augmentation(const Json* augment);

/// The key `loader_threads`.
std::optional<size_t> read_loader_threads(WithReader& reader);

/// Reads those keys of `gradients:` that are about compression (docs/user/compression.md); nothing
/// if `compression` is not among them. Dgc's momentum is not: it is the optimizer's. Throws
/// Error{InvalidInput} naming the key that does not go with the others.
std::optional<Compression> read_compression(WithReader& gradients);

/// "mstopk, density 0.01, hierarchical": all that decides what is sent.
std::string to_text(const Compression& compression);

/// Reads `cooperation:` out of a train step's `with:`; without the key, ranks are synchronous.
/// Throws Error{InvalidInput} naming the key that is wrong, also if it is one of those that need
/// ranks to be synchronous (`gradients`, `batch_norm: global`, `shard_optimizer`, `precision:
/// {reduction: exact}`), or on servers whole layers (`clip_norm`, `optimizer: {kind: lamb}`).
CooperationOptions read_cooperation(const Json& with);

/// "local_sgd every 8, ranks: 4": what decides the bits, for people and for who compares.
std::string describe(const CooperationOptions& options, int num_ranks);

}  // namespace dlflow::runtime
