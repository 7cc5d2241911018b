#include <algorithm>
#include <string>
#include <utility>

#include "runtime/settings/parts.h"

namespace dlflow::runtime {
namespace {

using Course = Schedule::Course;

/// The first is the default.
constexpr WithReader::Words<Course> kCourses = {
    {"cosine", Course::Cosine},         {"constant", Course::Constant},
    {"polynomial", Course::Polynomial}, {"steps", Course::Steps},
    {"one_cycle", Course::OneCycle},    {"inverse_sqrt", Course::InverseSqrt}};

std::vector<uint64_t> read_epochs(const Json& list) {
  std::vector<uint64_t> epochs;
  const auto is_epoch = [](const Json& value) {
    return value.is_number() && value.get<double>() >= 1 &&
           value.get<double>() == double(uint64_t(value.get<double>()));
  };
  if (!list.is_array() || list.empty() || !std::ranges::all_of(list, is_epoch)) {
    WithReader::fail("lr_steps", "a list of epochs, whole numbers of at least 1");
  }
  for (const Json& value : list) epochs.push_back(value.get<uint64_t>());
  return epochs;
}

/// Refuses `key` unless the course is `of`.
void require_course(WithReader& reader, const char* key, Course course, Course of) {
  if (course == of || reader.find(key) == nullptr) return;
  WithReader::refuse(key, std::string("is not an option of 'schedule: ") + name(course) + "'");
}

}  // namespace

const char* name(Schedule::Course course) { return WithReader::name_of(course, kCourses); }

bool follows_epochs(Schedule::Course course) {
  return course != Course::Constant && course != Course::InverseSqrt;
}

Schedule::Course read_schedule(WithReader& reader) { return reader.word("schedule", kCourses); }

CourseOptions read_course(WithReader& reader, Schedule::Course course, double lr) {
  CourseOptions options;
  options.min_lr = reader.number("min_lr", 0, options.min_lr);
  if (options.min_lr > lr) WithReader::fail("min_lr", "at most 'lr'");
  require_course(reader, "lr_power", course, Course::Polynomial);
  require_course(reader, "lr_steps", course, Course::Steps);
  require_course(reader, "lr_factor", course, Course::Steps);
  options.power = reader.number("lr_power", 0, options.power);
  options.factor = reader.number("lr_factor", 0, options.factor);
  if (options.factor >= 1) WithReader::fail("lr_factor", "less than 1");
  if (const Json* steps = reader.find("lr_steps")) options.steps = read_epochs(*steps);
  return options;
}

}  // namespace dlflow::runtime
