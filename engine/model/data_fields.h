#pragma once

#include "engine/model/shape.h"

/// Keys of `with:` of steps that read data for networks.
namespace dlflow {

Field scratch_field();
Field cache_field();
Field loader_threads_field();

}  // namespace dlflow
