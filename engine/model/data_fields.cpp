#include "engine/model/data_fields.h"

#include "engine/model/forms.h"

namespace dlflow {

Field scratch_field() {
  return {"scratch", boolean(), "Each node reads the data from a copy on its own disk",
          Presence::Optional, false};
}

Field cache_field() {
  return {"cache",
          object({{"memory", formed(size_form()),
                   "Memory of each node for data, shared by its ranks", kRequired},
                  {"scratch", formed(size_form()),
                   "Space on each node's own disk for data that does not fit into memory"},
                  {"share", boolean(),
                   "Each node keeps a part of the data for the others, so that it is read once for "
                   "all nodes",
                   Presence::Optional, false}}),
          "Keeps the data that a node has read; needs data with hashes of its parts (dlflow data "
          "pack)"};
}

Field loader_threads_field() {
  return {"loader_threads", integer(1),
          "Threads of each rank that prepare samples; of data kept as JPEG as many as it has "
          "cores, else 1, unless given"};
}

}  // namespace dlflow
