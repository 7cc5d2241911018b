#include "runtime/data/dataset.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "runtime/data/binary_dataset.h"
#include "runtime/data/idx.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// FOLDER/NAME, or FOLDER/NAME.gz, which may be unpacked all the same.
std::optional<fs::path> find(const fs::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    if (fs::exists(folder / candidate)) return folder / candidate;
  }
  return std::nullopt;
}

Dataset read_split(const fs::path& folder, Split split) {
  const bool train = split == Split::Train;
  const fs::path binary = folder / (train ? "train.dlset" : "test.dlset");
  if (fs::exists(binary)) return read_binary_dataset(binary);

  const std::string prefix = train ? "train" : "t10k";
  const auto images = find(folder, prefix + "-images-idx3-ubyte");
  const auto labels = find(folder, prefix + "-labels-idx1-ubyte");
  if (images && labels) return read_idx_pair(*images, *labels);
  throw Error(Errc::NotFound, folder.string() + ": no " + (train ? "training" : "test") +
                                  " data: neither " + binary.filename().string() + " nor " +
                                  prefix + "-images-idx3-ubyte and " + prefix +
                                  "-labels-idx1-ubyte are there");
}

}  // namespace

Dataset open_dataset(const fs::path& folder, Split split) {
  Dataset dataset = read_split(folder, split);
  if (dataset.size() == 0 || dataset.shape.num_values() == 0) {
    throw Error(Errc::InvalidInput, folder.string() + ": the data set holds no images");
  }
  return dataset;
}

}  // namespace dlflow::runtime
