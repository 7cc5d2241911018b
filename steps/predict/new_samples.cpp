#include "steps/predict/new_samples.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "runtime/import/picture.h"
#include "runtime/import/reshape.h"
#include "runtime/import/table.h"
#include "runtime/text/documents.h"
#include "runtime/text/vocabulary.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace runtime;
using Words = std::vector<std::string>;

[[noreturn]] void refuse(const fs::path& place, const std::string& reason) {
  throw Error(Errc::InvalidInput, place.string() + ": " + reason);
}

/// Advises how to give a `line` that the checkpoint does not record.
std::string unrecorded(const std::string& line) {
  return "; the checkpoint records no '" + line.substr(0, line.find(' ')) +
         "' of its training: write --origin '" + line + "', or in a step `origin: [" + line + "]`";
}

/// The names in the lines of `origin` that begin with `kind`.
Words named(const Words& origin, const std::string& kind) {
  Words names;
  for (const std::string& line : origin) {
    if (line.starts_with(kind + " ")) names.push_back(line.substr(kind.size() + 1));
  }
  return names;
}

/// Gives `dataset` the answers that the network's loss expects of a data set; they are not read.
Dataset with_answers(Dataset dataset, size_t count, const Model& model) {
  if (!has_targets(model.loss)) {
    dataset.num_classes = uint32_t(model.num_classes());
    dataset.labels = std::vector<uint32_t>(count);
    return dataset;
  }
  dataset.num_targets = uint32_t(model.num_classes());
  dataset.targets = {std::vector<float>(count * dataset.num_targets), dataset.num_targets};
  return dataset;
}

/// Samples that are parts of `dataset`. Without `names`, they are `count` rows.
NewSamples parts_of(Dataset dataset, size_t count, Words names, const Model& model) {
  NewSamples samples{names.empty() ? "row" : "file", std::move(names), {}, {}, {}};
  for (size_t i = samples.names.size(); i < count; ++i) {
    samples.names.push_back(std::to_string(i + 1));
  }
  dataset = with_answers(std::move(dataset), count, model);
  samples.read = [dataset](IndexRange range, Words&) {
    const auto list = std::make_shared<std::vector<uint32_t>>(range.count);
    std::iota(list->begin(), list->end(), uint32_t(range.first));
    return dataset.select(Subset::only({*list, list}));
  };
  return samples;
}

/// Writes a picture in 1 or 3 channels: grey is repeated, colours are weighted as Pillow does.
void write_values(const Picture& picture, uint32_t channels, float* output) {
  std::vector<float> values = picture.floats;
  if (!picture.is_wide()) values.assign(picture.values.begin(), picture.values.end());
  const size_t own = picture.shape.channels, plane = values.size() / own;
  for (size_t i = 0; i < channels * plane; ++i) {
    const float* const at = &values[i % plane];
    const bool mixes = own == 3 && channels == 1;
    const float grey = mixes ? 0.299f * at[0] + 0.587f * at[plane] + 0.114f * at[2 * plane] : at[0];
    output[i] = own == channels ? values[i] : picture.is_wide() ? grey : std::round(grey);
  }
}

/// Writes the input that `file` becomes; returns why it cannot.
std::string write_input(const fs::path& file, const Reshaping& reshaping, const ImageShape& shape,
                        float* output) {
  const auto size = [](const ImageShape& s) {
    return std::to_string(s.width) + "x" + std::to_string(s.height);
  };
  try {
    const std::string name = file.string();
    const Picture picture = reshape(parse_picture(read_file(file), name), reshaping, name);
    if (size(picture.shape) != size(shape)) {
      return name + ": has " + size(picture.shape) + " pixels, the network takes " + size(shape) +
             unrecorded("resize " + size(shape));
    }
    write_values(picture, shape.channels, output);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

NewSamples open_pictures(const fs::path& place, const Model& model, const Words& origin) {
  if (model.input.size() != 3 || (model.input[0] != 1 && model.input[0] != 3)) {
    refuse(place, "the network takes " + to_string(model.input) +
                      ", not pictures; name a .csv or .tsv file, or a data set");
  }
  std::vector<NamedFile> files;
  if (!fs::is_empty(place)) files = files_of(place, "*");
  std::erase_if(files, [&](const NamedFile& file) {
    const bool is_hidden = file.path.filename().string().starts_with('.');
    return file.path != place && (is_hidden || !is_picture(file.path));
  });
  if (files.empty()) {
    throw Error(Errc::NotFound, place.string() + ": has no JPEG, PNG, PGM or PPM pictures");
  }
  NewSamples samples{"file", {}, {}, {}, {}};
  for (const NamedFile& file : files) samples.names.push_back(escaped(file.name));
  const ImageShape shape = {uint32_t(model.input[0]), uint32_t(model.input[1]),
                            uint32_t(model.input[2])};
  samples.read = [=, how = reshaping_in(origin)](IndexRange range, Words& faults) {
    const size_t values = shape.num_values();
    std::vector<float> all(range.count * values);
#pragma omp parallel for schedule(dynamic)
    for (size_t i = 0; i < range.count; ++i) {
      const size_t sample = range.first + i;
      faults[sample] = write_input(files[sample].path, how, shape, &all[i * values]);
    }
    return with_answers(make_dataset(shape, 0, std::move(all), {}), range.count, model);
  };
  return samples;
}

NewSamples open_table(const fs::path& place, const Model& model, const Words& origin) {
  if (const TensorShape& input = model.input; input.size() == 3 && input[1] * input[2] > 1) {
    refuse(place, "is a table, but the network takes pictures of " + std::to_string(input[2]) +
                      " x " + std::to_string(input[1]));
  }
  TableColumns columns;
  columns.known = features_of(origin);
  for (const Feature& feature : columns.known) columns.features.push_back(feature.column);
  columns.has_answers = false;
  if (columns.features.empty()) {
    refuse(place, "which columns does the network read?" + unrecorded("feature COLUMN"));
  }
  Table table = parse_table(map_file(place).view, place.string(), columns, separator_of(place));
  const size_t rows = std::get<PixelRows<float>>(table.dataset.pixels).size();
  NewSamples samples = parts_of(std::move(table.dataset), rows, {}, model);
  samples.notes = std::move(table.notes);
  return samples;
}

/// Texts as bytes, cut at the network's length; each is followed by its end if there is room.
Dataset tokens_of(const std::vector<std::string_view>& texts, const Model& model) {
  const auto bytes = std::make_shared<std::pair<std::string, std::vector<uint64_t>>>();
  const Vocabulary vocabulary = Vocabulary::bytes();
  const auto length = size_t(model.input[0]);
  for (const std::string_view text : texts) {
    bytes->first += text.substr(0, length);
    if (text.size() < length) bytes->first += char(vocabulary.end_of_text());
    bytes->second.push_back(bytes->first.size());
  }
  EncodedImages tokens;
  tokens.add({reinterpret_cast<const uint8_t*>(bytes->first.data()), bytes->second, "", bytes});
  Dataset dataset{{1, 1, uint32_t(length)}, 0, std::move(tokens), {}};
  dataset.tokenizer = vocabulary.id();
  dataset.token_bytes = 1;
  dataset.vocabulary = uint32_t(vocabulary.size());
  return dataset;
}

NewSamples open_texts(const fs::path& place, const Model& model, const Words& origin,
                      const std::string& tokenizer) {
  const bool has_bytes = tokenizer.empty() || tokenizer == Vocabulary::bytes().id();
  if (!has_bytes || model.loss != LossKind::SoftmaxCrossEntropy) {
    refuse(place,
           "only texts of bytes with a class each become tokens here; pack others by `dlflow "
           "data pack`, as docs/user/data-format.md#text shows, and name that data set");
  }
  std::vector<std::string_view> texts;
  Words names;
  if (!is_table(place)) {
    const Documents documents = read_documents({&place, 1}, "*.txt");
    for (const Document& document : documents.all) {
      names.push_back(escaped(document.name));
      texts.push_back(document.text);
    }
    return parts_of(tokens_of(texts, model), texts.size(), std::move(names), model);
  }
  const Words column = named(origin, "text");
  if (column.empty()) refuse(place, "which column has the texts?" + unrecorded("text COLUMN"));
  const TextTable table = parse_text_table(map_file(place).view, place.string(),
                                           {column.front(), {}}, separator_of(place));
  texts.assign(table.texts.begin(), table.texts.end());
  return parts_of(tokens_of(texts, model), texts.size(), {}, model);
}

}  // namespace

NewSamples open_new_samples(const fs::path& place, const Model& model, const Words& origin,
                            const std::string& tokenizer) {
  if (!fs::exists(place)) {
    throw Error(Errc::NotFound, place.string() + ": there is no such file or folder");
  }
  refuse_unreadable(place);
  const bool is_rows = is_table(place) && !fs::is_directory(place);
  NewSamples samples = model.takes_tokens() ? open_texts(place, model, origin, tokenizer)
                       : is_rows            ? open_table(place, model, origin)
                                            : open_pictures(place, model, origin);
  if (samples.names.empty()) refuse(place, "there are no rows in it");
  samples.targets = named(origin, "target");
  samples.faults.resize(samples.names.size());
  return samples;
}

}  // namespace dlflow::steps
