#include "runtime/settings/evaluate_settings.h"

#include "runtime/settings/parts.h"
#include "runtime/settings/with_reader.h"

namespace dlflow::runtime {

EvaluateSettings parse_evaluate_settings(const Json& with) {
  WithReader reader(with);
  EvaluateSettings s;
  s.checkpoint = reader.text("checkpoint");
  s.data = reader.text("data");
  s.scratch = reader.flag("scratch", s.scratch);
  s.loader_threads = read_loader_threads(reader);
  s.batch = reader.count("batch", 1, s.batch);
  reader.finish();
  return s;
}

}  // namespace dlflow::runtime
