#include "runtime/import/sources.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/archive/byte_source.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/data/idx.h"
#include "runtime/data/jpeg.h"
#include "runtime/data/names.h"
#include "runtime/data/split_files.h"
#include "runtime/import/masked_pictures.h"
#include "runtime/import/npy.h"
#include "runtime/import/picture.h"
#include "runtime/import/picture_kind.h"
#include "runtime/import/turned_pictures.h"

namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// Returns the content of a file, unpacked if it is compressed.
std::string read_unpacked(const fs::path& file) {
  if (!is_gzip(file)) return read_file(file);
  const std::unique_ptr<ByteSource> source = open_gzip(file);
  std::string content, buffer(size_t{1} << 20, '\0');
  while (const size_t got = source->read(buffer)) content.append(buffer, 0, got);
  return content;
}

Dataset read_idx(const fs::path& images, const fs::path& labels) {
  return join_idx({images, shared_bytes(read_unpacked(images))},
                  {labels, shared_bytes(read_unpacked(labels))});
}

/// Returns the entries of `folder`, sorted by name, without hidden ones.
std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// A folder of pictures by class.
struct PictureFolder {
  std::vector<fs::path> files;
  std::vector<std::string> names;
  std::vector<uint32_t> labels;
  std::vector<std::string> classes;
  Reshaping reshaping;
  UsualKind kind;
  TurnedPictures turned;
  Picture current;
  bool keeps_jpeg = false;
  uint32_t jpeg_channels = 1;  // common to all kept JPEG files
  std::string current_file;    // the last kept file read

  PictureFolder(const fs::path& folder, const Reshaping& how, bool keep_files)
      : reshaping(how), keeps_jpeg(keep_files) {
    for (const fs::path& entry : sorted_entries(folder)) {
      if (!fs::is_directory(entry)) continue;
      add_class(entry);
    }
    if (files.empty()) {
      throw Error(Errc::NotFound, folder.string() +
                                      ": contains neither a data set nor folders of JPEG, PNG, PGM "
                                      "or PPM pictures, one for each class");
    }
    if (keeps_jpeg) find_color();
    kind = UsualKind(files, [this](size_t sample) { return kind_of(sample); });
  }
  PictureFolder(const PictureFolder&) = delete;
  PictureFolder& operator=(const PictureFolder&) = delete;

  /// If any of the kept files is in colour, grey ones are converted to colour.
  void find_color() {
    for (size_t i = 0; i < files.size() && jpeg_channels == 1; ++i) {
      try {
        jpeg_channels = JpegReader(map_file(files[i]).view, "").shape().channels;
      } catch (const Error&) {  // reported when the file is read
      }
    }
  }

  PictureKind kind_of(size_t sample) {
    if (keeps_jpeg) return {shape_of_jpeg(read_file(files[sample]), sample)};
    const Picture picture = open(sample);
    return {picture.shape, picture.is_wide()};
  }

  /// Returns the file's shape after loading.
  ImageShape shape_of_jpeg(std::string_view content, size_t sample) const {
    const std::string name = files[sample].string();
    if (!content.starts_with("\xff\xd8\xff")) {
      throw Error(Errc::InvalidInput, name +
                                          ": is not a JPEG file, and --keep-jpeg keeps only these; "
                                          "convert it, or leave --keep-jpeg out");
    }
    ImageShape shape = shape_after(JpegReader(content, name).shape(), reshaping, name);
    shape.channels = jpeg_channels;
    return shape;
  }

  std::vector<uint64_t> file_sizes() const {
    std::vector<uint64_t> sizes;
    for (const fs::path& file : files) {
      std::error_code error;  // unreadable files are reported when they are read
      const uintmax_t size = fs::file_size(file, error);
      sizes.push_back(error ? 0 : size);
    }
    return sizes;
  }

  /// Decodes the whole file to detect damage now.
  std::string_view read_jpeg(size_t sample, uint64_t size) {
    current_file = read_file(files[sample]);
    const std::string name = files[sample].string();
    kind.require(sample, {shape_of_jpeg(current_file, sample)});
    turned.look(sample, current_file, name);
    JpegReader(current_file, name).read_all();
    if (current_file.size() == size) return current_file;
    throw Error(Errc::Unavailable, name + ": was changed while it was packed; pack again");
  }

  void add_class(const fs::path& folder) {
    if (const std::string mistake = mistake_in_name(folder.filename().string()); !mistake.empty()) {
      throw Error(Errc::InvalidInput, escaped(folder.string()) +
                                          ": the folder names a class, but its name " + mistake +
                                          "; rename it");
    }
    for (const fs::path& file : sorted_entries(folder)) {
      if (fs::is_directory(file)) {
        throw Error(Errc::InvalidInput,
                    file.string() + ": is a folder in the folder of a class; pack each split: " +
                        "dlflow data pack " + folder.string() + " -o FOLDER [--split test]");
      }
      files.push_back(file);
      names.push_back(folder.filename().string() + "/" + file.filename().string());
      labels.push_back(uint32_t(classes.size()));
    }
    classes.push_back(folder.filename().string());
  }

  Picture open(size_t sample) {
    const fs::path& file = files[sample];
    if (!is_picture(file)) {
      throw Error(Errc::InvalidInput, file.string() + ": is not a JPEG, PNG, PGM or PPM picture; " +
                                          "convert it, or take it out of the folder");
    }
    const std::string content = read_file(file);
    turned.look(sample, content, file.string());
    return reshape(parse_picture(content, file.string()), reshaping, file.string());
  }

  std::string_view read(size_t sample) {
    current = open(sample);
    kind.require(sample, {current.shape, current.is_wide()});
    if (kind->is_wide) {
      return {reinterpret_cast<const char*>(current.floats.data()),
              current.floats.size() * sizeof(float)};
    }
    return {reinterpret_cast<const char*>(current.values.data()), current.values.size()};
  }
};

ImportedSplit keep_pictures(const std::shared_ptr<PictureFolder>& pictures) {
  SampleSource source;
  source.shape = pictures->kind->shape;
  source.num_classes = uint32_t(pictures->classes.size());
  source.pixel_type = PixelType::Jpeg;
  source.labels = pictures->labels;
  source.encoded_sizes = pictures->file_sizes();
  source.image = [pictures, sizes = source.encoded_sizes](size_t sample) {
    return pictures->read_jpeg(sample, sizes[sample]);
  };
  source.reshaping = pictures->reshaping;
  source.reshaping.crop = {};  // given by the shape
  return {std::move(source), pictures->classes, {}, pictures->names, [pictures] {
            return pictures->turned.notes();
          }};
}

ImportedSplit open_pictures(const fs::path& folder, const ImportOptions& options) {
  const auto pictures =
      std::make_shared<PictureFolder>(folder, options.reshaping, options.keeps_jpeg);
  if (options.keeps_jpeg) return keep_pictures(pictures);
  return {{pictures->kind->shape, uint32_t(pictures->classes.size()),
           pictures->kind->is_wide ? PixelType::Float : PixelType::Byte, pictures->labels,
           [pictures](size_t sample) { return pictures->read(sample); }},
          pictures->classes,
          {},
          pictures->names,
          [pictures] { return pictures->turned.notes(); }};
}

[[noreturn]] void refuse_reshaping(const fs::path& source) {
  throw Error(Errc::InvalidInput,
              "--resize and --crop change pictures in folders, one for each "
              "class, or one of pictures and one of masks; " +
                  source.string() + " has none");
}

ImportedSplit open_folder(const fs::path& folder, Split split, const ImportOptions& options) {
  const auto found = find_split(folder, split);
  if (!found && has_masked_pictures(folder)) return open_masked_pictures(folder, options);
  if (!found) return open_pictures(folder, options);
  if (options.reshaping.given()) refuse_reshaping(folder);
  Dataset dataset = found->format == SplitFiles::Format::Idx
                        ? read_idx(found->files[0], found->files[1])
                        : read_split(*found, Proof::Hash);
  return {source_of(std::move(dataset)),
          read_names(folder / kClassNames),
          read_names(folder / kColumnNames),
          {}};
}

bool is_npy(const fs::path& file) { return file.extension() == ".npy"; }

ImportedSplit open_table(const fs::path& file, const TableColumns& columns) {
  Table table = parse_table(map_file(file).view, file.string(), columns, separator_of(file));
  ImportedSplit split{
      source_of(std::move(table.dataset)), std::move(table.classes), {}, std::move(table.rows)};
  for (const Feature& feature : table.features) split.columns.push_back(line_of(feature));
  for (const std::string& name : table.targets) split.columns.push_back("target " + name);
  split.notes = [notes = std::move(table.notes)] { return notes; };
  return split;
}

/// Throws Error{InvalidInput} if there is nothing to import.
ImportedSplit not_empty(ImportedSplit split, const fs::path& source) {
  if (split.source.size() > 0 && split.source.shape.num_values() > 0) return split;
  throw Error(Errc::InvalidInput,
              source.string() +
                  (is_table(source) ? ": there are no rows in it" : ": there are no images in it"));
}

ImportedSplit open_any_source(const fs::path& source, const fs::path& labels, Split split,
                              const ImportOptions& options) {
  if (!fs::exists(source)) {
    throw Error(Errc::NotFound, source.string() + ": there is no such file or folder");
  }
  refuse_unreadable(source);
  refuse_unreadable(labels);
  if (options.reshaping.given() && !fs::is_directory(source)) refuse_reshaping(source);
  if (is_table(source) && !fs::is_directory(source)) {
    if (labels.empty()) return not_empty(open_table(source, options.columns), source);
    throw Error(Errc::InvalidInput, source.string() +
                                        " is a table, which is a single file: name the columns "
                                        "to learn, with --target COLUMN or --class COLUMN");
  }
  if (options.columns.given()) {
    throw Error(Errc::InvalidInput,
                "--target, --class and --features name columns of a .csv or "
                ".tsv file; " +
                    source.string() + " is not one");
  }
  if (fs::is_directory(source)) {
    if (labels.empty()) return not_empty(open_folder(source, split, options), source);
    throw Error(Errc::InvalidInput, source.string() + " is a folder, which needs no labels");
  }
  if (labels.empty()) {
    if (source.extension() == ".txt")
      throw Error(Errc::InvalidInput, source.string() + " is text: add --tokens bytes");
    throw Error(Errc::InvalidInput, "where are the labels of " + source.string() +
                                        "? Name their file after it: dlflow data pack " +
                                        source.string() + " LABELS");
  }
  if (is_npy(source) && has_npy_masks(labels)) {
    return not_empty({read_npy_masks(source, labels, options.ignored), {}, {}, {}}, source);
  }
  if (is_npy(source)) {
    std::vector<std::string> notes;
    ImportedSplit imported{source_of(read_npy_pair(source, labels, &notes)), {}, {}, {}};
    imported.notes = [notes] { return notes; };
    return not_empty(std::move(imported), source);
  }
  return not_empty({source_of(read_idx(source, labels)), {}, {}, {}}, source);
}

}  // namespace

ImportedSplit open_source(const fs::path& source, const fs::path& labels, Split split,
                          const ImportOptions& options) {
  ImportedSplit imported = open_any_source(source, labels, split, options);
  if (options.keeps_jpeg && imported.source.pixel_type != PixelType::Jpeg) {
    throw Error(Errc::InvalidInput, "--keep-jpeg keeps pictures in folders, one for each class; " +
                                        source.string() + " has none");
  }
  if (!options.ignored || imported.source.has_masks) return imported;
  throw Error(Errc::InvalidInput, "--ignore is a value of masks; " + source.string() +
                                      " has none: neither folders 'images' and 'masks', nor an "
                                      ".npy array of masks, (N, H, W), after that of images");
}

}  // namespace dlflow::runtime
