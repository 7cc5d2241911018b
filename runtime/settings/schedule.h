#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "runtime/optim/schedule.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

/// The options of a learning rate course.
struct CourseOptions {
  double min_lr = 0;
  double power = 1;
  double factor = 0.1;
  std::optional<std::vector<uint64_t>> steps;  ///< epochs; default: after half and three quarters

  bool operator==(const CourseOptions&) const = default;
};

/// The course called `word`; Cosine if null. Throws Error{InvalidInput}.
Schedule::Course read_schedule(const Json* word);

/// The name in YAML.
const char* name(Schedule::Course course);

/// Whether the rate depends on the total number of epochs.
bool follows_epochs(Schedule::Course course);

/// Reads the options of `course`; refuses those of others, and a minimum above `lr`.
CourseOptions read_course(WithReader& reader, Schedule::Course course, double lr);

}  // namespace dlflow::runtime
