#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/compress/compression.h"
#include "runtime/cooperation/options.h"
#include "runtime/data/augment.h"
#include "runtime/settings/with_reader.h"

/// Keys of `with:` that have their own rules.
namespace dlflow::runtime {

/// Reads `augment:` of a train step; null means no augmentation. Throws Error{InvalidInput} naming
/// the invalid key.
Augmentation read_augmentation(const Json* augment);

/// Reads the key `loader_threads`.
std::optional<size_t> read_loader_threads(WithReader& reader);

/// Reads the keys of `gradients:` about compression (docs/user/compression.md); returns nothing
/// without `compression`. Does not set the momentum of DGC, which comes from the optimizer. Throws
/// Error{InvalidInput} naming the key that conflicts with the others.
std::optional<Compression> read_compression(WithReader& gradients);

/// "mstopk, density 0.01, hierarchical": everything that determines which data is sent.
std::string to_text(const Compression& compression);

/// Reads `cooperation:` from a train step's `with:`; without the key, ranks are synchronous. Throws
/// Error{InvalidInput} naming the invalid key. This includes keys that need synchronous ranks
/// (`gradients`, `batch_norm: global`, `shard_optimizer`, `precision: {reduction: exact}`), and
/// with servers those that need whole layers (`clip_norm`, `optimizer: {kind: lamb}`).
CooperationOptions read_cooperation(const Json& with);

/// "local_sgd every 8, ranks: 4": everything that determines the bits, for people and comparisons.
std::string describe(const CooperationOptions& options, int num_ranks);

}  // namespace dlflow::runtime
