#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "runtime/optim/schedule.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

/// The options of a course of the learning rate.
struct CourseOptions {
  double min_lr = 0;
  double power = 1;
  double factor = 0.1;
  std::optional<std::vector<uint64_t>> steps;  ///< epochs; else after half and three quarters

  bool operator==(const CourseOptions&) const = default;
};

/// The course of this name; Cosine without one. Throws Error{InvalidInput}.
Schedule::Course read_schedule(const Json* word);

/// As in YAML.
const char* name(Schedule::Course course);

/// The rate depends on how many epochs there are.
bool follows_epochs(Schedule::Course course);

/// The options of `course`; those of others are refused, and a minimum above `lr`.
CourseOptions read_course(WithReader& reader, Schedule::Course course, double lr);

}  // namespace dlflow::runtime
