#include "steps/predict/new_samples.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "runtime/data/sample_threads.h"
#include "runtime/import/picture.h"
#include "runtime/import/reshape.h"
#include "runtime/import/table.h"
#include "runtime/text/documents.h"
#include "runtime/text/vocabulary.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;
using namespace runtime;

[[noreturn]] void refuse(const fs::path& place, const std::string& reason) {
  throw Error(Errc::InvalidInput, place.string() + ": " + reason);
}

/// Refuses since neither the checkpoint nor an option gives `what`, the value of `key`.
[[noreturn]] void refuse_unrecorded(const fs::path& place, const std::string& reason,
                                    const std::string& what, const std::string& key,
                                    const std::string& value) {
  refuse(place, reason + "; the checkpoint does not record " + what +
                    ", as data packed by older versions did not: write --" + key + " " + value +
                    ", or in a step `" + key + ":`");
}

std::string size_text(const ImageShape& shape) {
  return std::to_string(shape.width) + "x" + std::to_string(shape.height);
}

/// Gives `dataset` the answers that the network's loss expects of a data set; they are not read.
Dataset with_answers(Dataset dataset, size_t count, const Model& model) {
  if (has_targets(model.loss)) {
    dataset.num_targets = uint32_t(model.num_classes());
    dataset.targets = {std::vector<float>(count * dataset.num_targets), dataset.num_targets};
  } else {
    dataset.labels = std::vector<uint32_t>(count);
  }
  return dataset;
}

/// `samples` as parts of `dataset`, which is in memory.
NewSamples parts_of(Dataset dataset, const std::string& noun, std::vector<std::string> names) {
  NewSamples samples{noun, std::move(names), {}, {}, {}};
  samples.read = [dataset = std::move(dataset)](IndexRange range, Faults&) {
    const auto list = std::make_shared<std::vector<uint32_t>>(range.count);
    std::iota(list->begin(), list->end(), uint32_t(range.first));
    return dataset.select(Subset::only({*list, list}));
  };
  return samples;
}

std::vector<std::string> numbers_to(size_t count) {
  std::vector<std::string> numbers;
  for (size_t i = 1; i <= count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

/// Writes the values of `picture` in 1 or 3 channels: grey is repeated, colours are weighted as in
/// Pillow's mode L.
void write_values(const Picture& picture, uint32_t channels, float* output) {
  std::vector<float> values = picture.floats;
  if (!picture.is_wide()) values.assign(picture.values.begin(), picture.values.end());
  const size_t plane = values.size() / picture.shape.channels;
  if (picture.shape.channels == channels) {
    std::ranges::copy(values, output);
  } else if (channels == 3) {
    for (size_t c = 0; c < 3; ++c) std::ranges::copy(values, output + c * plane);
  } else {
    for (size_t i = 0; i < plane; ++i) {
      const float grey =
          0.299f * values[i] + 0.587f * values[plane + i] + 0.114f * values[2 * plane + i];
      output[i] = picture.is_wide() ? grey : std::round(grey);
    }
  }
}

/// Pictures of any size, decoded in parallel.
class Pictures {
 public:
  Pictures(std::vector<NamedFile> files, const InputRules& rules)
      : files_(std::move(files)), rules_(rules) {
    const TensorShape& input = rules.model.input;
    shape_ = {uint32_t(input[0]), uint32_t(input[1]), uint32_t(input[2])};
    if (rules.threads > 1) threads_.emplace(rules.threads - 1);
  }

  Dataset read(IndexRange range, Faults& faults) {
    const size_t values = shape_.num_values();
    std::vector<float> all(range.count * values);
    const auto read_one = [&](size_t item, size_t) {
      const size_t number = range.first + item;
      const auto picture = open(files_[number].path, faults[number]);
      if (picture) write_values(*picture, shape_.channels, &all[item * values]);
    };
    if (threads_) {
      threads_->run(range.count, read_one);
    } else {
      for (size_t item = 0; item < range.count; ++item) read_one(item, 0);
    }
    return with_answers(make_dataset(shape_, 0, std::move(all), {}), range.count, rules_.model);
  }

 private:
  /// Nothing if the file cannot be read, with the reason in `fault`.
  std::optional<Picture> open(const fs::path& file, std::string& fault) const {
    Picture picture;
    try {
      const std::string name = file.string();
      picture = reshape(parse_picture(read_file(file), name), rules_.origin.reshaping, name);
    } catch (const Error& error) {
      fault = error.what();
      return std::nullopt;
    }
    const ImageShape& own = picture.shape;
    if (own.height == shape_.height && own.width == shape_.width) return picture;
    const std::string wanted = size_text(shape_);
    refuse_unrecorded(file, "has " + size_text(own) + " pixels, the network takes " + wanted,
                      "how the training resized pictures", "resize", wanted);
  }

  std::vector<NamedFile> files_;
  InputRules rules_;
  ImageShape shape_;
  std::optional<SampleThreads> threads_;
};

NewSamples open_pictures(const fs::path& place, const InputRules& rules) {
  const TensorShape& input = rules.model.input;
  if (input.size() != 3 || (input[0] != 1 && input[0] != 3)) {
    refuse(place, "the network takes " + to_string(input) +
                      ", not pictures; name a table, a .csv or .tsv file, or a data set of "
                      "`dlflow data pack`");
  }
  std::vector<NamedFile> files = files_of(place, "*");
  if (fs::is_directory(place)) {
    std::erase_if(files, [](const NamedFile& file) {
      return !is_picture(file.path) || file.path.filename().string().starts_with('.');
    });
  }
  if (files.empty()) {
    throw Error(Errc::NotFound, place.string() + ": has no JPEG, PNG, PGM or PPM pictures");
  }
  NewSamples samples{"file", {}, {}, {}, {}};
  for (const NamedFile& file : files) samples.names.push_back(escaped(file.name));
  const auto pictures = std::make_shared<Pictures>(std::move(files), rules);
  samples.read = [pictures](IndexRange range, Faults& faults) {
    return pictures->read(range, faults);
  };
  return samples;
}

NewSamples open_table(const fs::path& place, const InputRules& rules) {
  TableColumns columns;
  columns.features = rules.origin.features;
  columns.has_answers = false;
  if (columns.features.empty()) {
    refuse_unrecorded(place, "the network takes columns in the order of its training",
                      "their names", "features", "COLUMN,…");
  }
  Table table = parse_table(map_file(place).view, place.string(), columns, separator_of(place));
  const size_t rows = std::get<Images<float>>(table.dataset.pixels).size();
  if (rows == 0) refuse(place, "there are no rows in it");
  return parts_of(with_answers(std::move(table.dataset), rows, rules.model), "row",
                  numbers_to(rows));
}

/// Texts as bytes, cut at `length`; each is followed by its end if there is room.
Dataset tokens_of(const std::vector<Document>& documents, const Model& model) {
  struct Tokens {
    std::string bytes;
    std::vector<uint64_t> ends;
  };
  const auto tokens = std::make_shared<Tokens>();
  const Vocabulary vocabulary = Vocabulary::bytes();
  const auto length = size_t(model.input[0]);
  for (const Document& document : documents) {
    tokens->bytes += document.text.substr(0, length);
    if (document.text.size() < length) tokens->bytes += char(vocabulary.end_of_text());
    tokens->ends.push_back(tokens->bytes.size());
  }
  EncodedImages texts;
  texts.add(
      {reinterpret_cast<const uint8_t*>(tokens->bytes.data()), tokens->ends, "texts", tokens});
  Dataset dataset{{1, 1, uint32_t(length)}, uint32_t(model.num_classes()), std::move(texts), {}};
  dataset.tokenizer = vocabulary.id();
  dataset.token_bytes = 1;
  dataset.vocabulary = uint32_t(vocabulary.size());
  return dataset;
}

void require_classes_of_bytes(const fs::path& place, const InputRules& rules) {
  if (!rules.tokenizer.empty() && rules.tokenizer != Vocabulary::bytes().id()) {
    refuse(place,
           "the network reads tokens of a SentencePiece model, which are made in Python: make "
           "them as docs/user/data-format.md#text shows, pack them by `dlflow data pack "
           "--tokenizer`, and name that data set");
  }
  if (rules.model.loss == LossKind::SoftmaxCrossEntropy) return;
  refuse(place,
         "texts are read for networks that give each a class; pack them by `dlflow data "
         "pack --tokens bytes`, and name that data set");
}

NewSamples open_texts(const fs::path& place, const InputRules& rules) {
  require_classes_of_bytes(place, rules);
  if (!is_table(place)) {
    const fs::path sources[] = {place};
    const Documents documents = read_documents(sources, "*.txt");
    std::vector<std::string> names;
    for (const Document& document : documents.all) names.push_back(escaped(document.name));
    const Dataset dataset = tokens_of(documents.all, rules.model);
    return parts_of(with_answers(dataset, names.size(), rules.model), "file", std::move(names));
  }
  if (rules.origin.text.empty()) {
    refuse_unrecorded(place, "a column has the texts", "its name", "text", "COLUMN");
  }
  const TextTable table = parse_text_table(map_file(place).view, place.string(),
                                           {rules.origin.text, {}}, separator_of(place));
  if (table.texts.empty()) refuse(place, "there are no rows in it");
  std::vector<Document> rows;
  for (const std::string& text : table.texts) rows.push_back({"", text});
  return parts_of(with_answers(tokens_of(rows, rules.model), rows.size(), rules.model), "row",
                  numbers_to(rows.size()));
}

}  // namespace

Origin Origin::replaced_by(const Origin& given) const {
  Origin result = *this;
  if (given.reshaping.given()) result.reshaping = given.reshaping;
  if (!given.features.empty()) result.features = given.features;
  if (!given.text.empty()) result.text = given.text;
  return result;
}

Origin origin_of(const std::vector<std::string>& lines) {
  Origin origin{.reshaping = reshaping_in(lines), .features = {}, .targets = {}, .text = {}};
  for (const std::string& line : lines) {
    const size_t end = std::min(line.find(' '), line.size());
    const std::string kind = line.substr(0, end),
                      name = line.substr(std::min(end + 1, line.size()));
    if (kind == "feature") origin.features.push_back(name);
    if (kind == "target") origin.targets.push_back(name);
    if (kind == "text") origin.text = name;
  }
  return origin;
}

NewSamples open_new_samples(const fs::path& place, const InputRules& rules) {
  if (!fs::exists(place)) {
    throw Error(Errc::NotFound, place.string() + ": there is no such file or folder");
  }
  refuse_unreadable(place);
  const bool is_numbers = is_table(place) && !fs::is_directory(place);
  NewSamples samples = rules.model.takes_tokens() ? open_texts(place, rules)
                       : is_numbers               ? open_table(place, rules)
                                                  : open_pictures(place, rules);
  samples.targets = rules.origin.targets;
  samples.faults.resize(samples.names.size());
  return samples;
}

}  // namespace dlflow::steps
