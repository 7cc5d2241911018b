#include "engine/model/data_fields.h"

#include <utility>

#include "engine/model/forms.h"

namespace dlflow {

Field scratch_field() {
  return {"scratch", boolean(), "Each node reads the data from a copy on its own disk",
          Presence::Optional, false};
}

Shape data_step(std::vector<Field> fields) {
  Shape with = object(std::move(fields));
  with.former = {
      {"cache",
       "; a cache of data is no longer kept: leave it out, or write 'scratch: true', which "
       "copies the data to each node's own disk"}};
  return with;
}

Field loader_threads_field() {
  return {"loader_threads", integer(1),
          "Threads of each rank that prepare samples; of data kept as JPEG as many as it has "
          "cores, else 1, unless given"};
}

}  // namespace dlflow
