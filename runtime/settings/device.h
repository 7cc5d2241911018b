#pragma once

#include "base/json.h"

namespace dlflow::runtime {

struct TrainSettings;

/// The device to train on.
enum class Device { Cpu, Cuda };

/// `device:` of a train step: 'cpu' if `name` is null. Throws Error{InvalidInput} naming the key.
Device read_device(const Json* name);

/// Throws Error{InvalidInput} naming the setting that a GPU cannot keep, and what to write.
void require_possible_on_gpu(const TrainSettings& settings);

}  // namespace dlflow::runtime
