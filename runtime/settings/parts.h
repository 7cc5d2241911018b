#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"
#include "runtime/data/dataset.h"
#include "runtime/data/normalization.h"
#include "runtime/settings/train_settings.h"
#include "runtime/settings/with_reader.h"

/// Keys of `with:` that have their own rules.
namespace dlflow::runtime {

/// Reads `augment:` of a train step; null means no augmentation. Throws Error{InvalidInput} naming
/// the invalid key.
Augmentation read_augmentation(const Json* augment);

/// Reads the key `normalize`.
std::optional<PixelStatistics> read_normalize(const Json* normalize);

/// The scale and shift that give `dataset`'s pixels mean 0 and variance 1, by `statistics`. Throws
/// Error{InvalidInput} if the number of channels differs.
Normalization normalization_from(const PixelStatistics& statistics, const Dataset& dataset);

/// Reads the key `schedule`; Cosine without it. Throws Error{InvalidInput}.
Schedule::Course read_schedule(WithReader& reader);

/// The name in YAML.
const char* name(Schedule::Course course);

/// Whether the rate depends on the total number of epochs.
bool follows_epochs(Schedule::Course course);

/// Reads the options of `course`; refuses those of others, and a minimum above `lr`.
CourseOptions read_course(WithReader& reader, Schedule::Course course, double lr);

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
