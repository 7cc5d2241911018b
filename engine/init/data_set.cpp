#include "base/error.h"
#include "base/text.h"
#include "engine/init/training.h"
#include "engine/init/workflow_text.h"
#include "runtime/data/dataset.h"
#include "runtime/data/split_files.h"

/// Folders that `dlflow data pack` wrote.
namespace dlflow {
namespace {

using runtime::Split;

/// Throws Error{InvalidInput} for data of which no small network learns.
void require_simple(const runtime::Dataset& dataset, const std::string& folder) {
  const bool is_text = !dataset.tokenizer.empty();
  if (!is_text && !dataset.has_masks) return;
  throw Error(Errc::InvalidInput,
              folder + (is_text ? " holds tokens of text; begin with a copy of "
                                  "workflows/language-model.yaml"
                                : " holds pictures with a class per pixel; begin with a copy of "
                                  "workflows/segmentation.yaml"));
}

}  // namespace

std::vector<InitFile> init_data_set(const InitRequest& request) {
  const runtime::Dataset dataset = runtime::read_split(
      *runtime::find_split(request.source, Split::Train), runtime::Proof::Structure);
  require_simple(dataset, request.source.string());
  TrainingData data = training_data_of(dataset);
  data.has_test = runtime::find_split(request.source, Split::Test).has_value();
  return training_files(request, data, "",
                        yaml_quote(named_by_workflow(request.source, request.workflow)));
}

}  // namespace dlflow
