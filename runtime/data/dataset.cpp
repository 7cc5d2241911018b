#include "runtime/data/dataset.h"

#include "runtime/data/split_files.h"

namespace dlflow::runtime {

Dataset open_dataset(const std::filesystem::path& folder, Split split, Proof proof) {
  Dataset dataset = read_split(split_files(folder, split), proof);
  if (dataset.size() == 0 || dataset.shape.num_values() == 0) {
    throw Error(Errc::InvalidInput, folder.string() + ": the data set holds no images");
  }
  return dataset;
}

}  // namespace dlflow::runtime
