#pragma once

#include "engine/model/shape.h"

namespace dlflow {

/// The shape of a profile: every key, its type, its meaning. The meaning of a missing key is in
/// cluster-profiles/local.yaml, and only there.
const Shape& profile_shape();

/// The same of a profile that extends another: no missing key has a value by itself.
const Shape& extending_profile_shape();

}  // namespace dlflow
