#pragma once

#include "engine/model/shape.h"

namespace dlflow {

/// The shape of a profile: every key, its type, its meaning. Only cluster-profiles/local.yaml gives
/// the defaults.
const Shape& profile_shape();

/// The shape of a profile that extends another: no key has a default.
const Shape& extending_profile_shape();

}  // namespace dlflow
