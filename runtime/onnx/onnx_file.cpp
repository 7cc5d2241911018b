#include "runtime/onnx/onnx_file.h"

#include <cstring>

#include "base/error.h"
#include "base/protobuf_reader.h"
#include "base/shared_bytes.h"
#include "base/text.h"
#include "runtime/onnx/element.h"

/// Field numbers are those of onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
namespace dlflow::runtime {
namespace {

namespace fs = std::filesystem;

/// The location of a tensor's numbers in another file.
struct ExternalBytes {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

std::string text_of(const MessageField& field) { return std::string(field.bytes); }

/// Returns key and value of a StringStringEntryProto.
std::pair<std::string, std::string> entry_of(std::string_view bytes) {
  std::pair<std::string, std::string> entry;
  MessageReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->number == 1) entry.first = text_of(*field);
    if (field->number == 2) entry.second = text_of(*field);
  }
  return entry;
}

void add_place(ExternalBytes& place, const std::string& key, const std::string& value) {
  if (key == "location") place.location = value;
  if (key == "offset") place.offset = std::strtoull(value.c_str(), nullptr, 10);
  if (key == "length") place.length = std::strtoull(value.c_str(), nullptr, 10);
}

/// Returns the number of elements of `shape`. Throws if no file could hold as many.
size_t count_of(const std::vector<int64_t>& shape, const std::string& name) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && count > kMost / size)) {
      throw Error(Errc::Corrupt, "constant '" + name + "' has no valid shape");
    }
    count *= size;
  }
  return size_t(count);
}

void read_sizes(std::string_view bytes, OnnxPort& port) {
  MessageReader reader(bytes);
  while (const auto dimension = reader.next()) {
    port.sizes.push_back(-1);
    MessageReader size(dimension->bytes);
    while (const auto field = size.next()) {
      if (field->number == 1) port.sizes.back() = field->integer();
    }
  }
}

void read_type(std::string_view bytes, OnnxPort& port) {
  MessageReader reader(bytes);
  while (const auto type = reader.next()) {
    if (type->number != 1) continue;  // tensor_type
    MessageReader tensor(type->bytes);
    while (const auto field = tensor.next()) {
      if (field->number == 1)
        port.is_integer = field->integer() == int64_t(Element::Int64) ||
                          field->integer() == int64_t(Element::Int32);
      if (field->number == 2) read_sizes(field->bytes, port);
    }
  }
}

OnnxPort read_port(std::string_view bytes) {
  OnnxPort port;
  MessageReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->number == 1) port.name = text_of(*field);
    if (field->number == 2) read_type(field->bytes, port);
  }
  return port;
}

/// Reads a ModelProto.
class FileReader {
 public:
  explicit FileReader(fs::path folder) : folder_(std::move(folder)) {}

  OnnxFile read(std::string_view content) {
    MessageReader reader(content);
    std::string_view graph;
    bool has_graph = false;
    while (const auto field = reader.next()) {
      if (field->number == 7 && field->has_bytes) {
        graph = field->bytes;
        has_graph = true;
      } else if (field->number == 8) {
        read_operator_set(field->bytes);
      } else if (field->number == 25) {
        throw Error(Errc::InvalidInput,
                    "the file defines functions of its own, which dlflow does not read");
      }
    }
    if (!has_graph || file_.operator_set == 0) throw Error(Errc::Corrupt, "it has no network");
    read_graph(graph);
    return std::move(file_);
  }

 private:
  void read_operator_set(std::string_view bytes) {
    std::string domain;
    int64_t version = 0;
    MessageReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) domain = text_of(*field);
      if (field->number == 2) version = field->integer();
    }
    if (domain.empty() || domain == "ai.onnx") file_.operator_set = version;
  }

  void read_graph(std::string_view bytes) {
    MessageReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) file_.nodes.push_back(read_node(field->bytes));
      if (field->number == 5) {
        auto [name, tensor] = read_tensor(field->bytes);
        file_.constants.insert_or_assign(name, std::move(tensor));
      }
      if (field->number == 11) file_.inputs.push_back(read_port(field->bytes));
      if (field->number == 12) file_.outputs.push_back(read_port(field->bytes));
      if (field->number == 15) {
        throw Error(Errc::InvalidInput,
                    "the file has sparse constants, which dlflow does not read");
      }
    }
    std::erase_if(file_.inputs,
                  [&](const OnnxPort& port) { return file_.constants.contains(port.name); });
  }

  OnnxNode read_node(std::string_view bytes) {
    OnnxNode node;
    std::vector<std::string_view> attributes;
    MessageReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) node.inputs.push_back(text_of(*field));
      if (field->number == 2) node.outputs.push_back(text_of(*field));
      if (field->number == 3) node.name = text_of(*field);
      if (field->number == 4) node.operation = text_of(*field);
      if (field->number == 5) attributes.push_back(field->bytes);
      if (field->number == 7) node.domain = text_of(*field);
    }
    for (const std::string_view attribute : attributes) add_setting(node, attribute);
    return node;
  }

  /// Among the value fields, the file has only the one for the attribute's type.
  void add_setting(OnnxNode& node, std::string_view bytes) {
    std::string name;
    OnnxSetting value = int64_t{0};
    std::vector<int64_t> integers;
    std::vector<float> floats;
    int64_t type = 0;
    MessageReader reader(bytes);
    while (const auto field = reader.next()) {
      if (field->number == 1) name = text_of(*field);
      if (field->number == 2) value = field->single();
      if (field->number == 3) value = field->integer();
      if (field->number == 4) value = text_of(*field);
      if (field->number == 5) value = read_tensor(field->bytes).second;
      if (field->number == 7) MessageReader::add_floats(*field, floats);
      if (field->number == 8) MessageReader::add_integers(*field, integers);
      if (field->number == 20) type = field->integer();
    }
    if (!floats.empty() || type == 6) value = std::move(floats);
    if (!integers.empty() || type == 7) value = std::move(integers);
    node.settings.insert_or_assign(name, std::move(value));
  }

  std::pair<std::string, OnnxTensor> read_tensor(std::string_view bytes) {
    std::string name;
    OnnxTensor tensor;
    int64_t type = 0;
    std::vector<int64_t> integers;
    std::optional<std::string_view> raw;
    std::optional<ExternalBytes> elsewhere;
    MessageReader reader(bytes);
    while (const auto field = reader.next()) {
      const auto number = field->number;
      if (number == 1) MessageReader::add_integers(*field, tensor.shape);
      if (number == 2) type = field->integer();
      if (number == 4) MessageReader::add_floats(*field, tensor.floats);
      if (number == 5 || number == 7) MessageReader::add_integers(*field, integers);
      if (number == 8) name = text_of(*field);
      if (number == 9) raw = field->bytes;
      if (number == 10) add_doubles(*field, name, tensor);
      if (number != 13) continue;
      if (!elsewhere) elsewhere.emplace();
      const auto [key, value] = entry_of(field->bytes);
      add_place(*elsewhere, key, value);
    }
    const size_t count = count_of(tensor.shape, name);
    if (elsewhere) raw = bytes_of(*elsewhere, name);
    const Element element = element_of(type, name);
    if (raw) {
      add_raw(*raw, element, name, tensor);
    } else {
      add_whole_numbers(std::move(integers), element, tensor);
    }
    if (tensor.size() != count) {
      throw Error(Errc::Corrupt, "constant '" + name + "' has " + std::to_string(tensor.size()) +
                                     " numbers, but its shape asks for " + std::to_string(count));
    }
    return {name, std::move(tensor)};
  }

  /// Reads only files in the model's own folder.
  std::string_view bytes_of(const ExternalBytes& place, const std::string& name) {
    const fs::path location = place.location;
    if (location.empty() || location.has_parent_path() || location == ".." || location == ".") {
      throw Error(Errc::InvalidInput, "the numbers of constant '" + name + "' are in '" +
                                          escaped(place.location) +
                                          "', which is not the name of a file beside the model");
    }
    auto found = files_.find(place.location);
    if (found == files_.end())
      found = files_.emplace(place.location, map_file(folder_ / location)).first;
    const std::string_view all = found->second.view;
    if (place.offset > all.size() || place.length.value_or(0) > all.size() - place.offset) {
      throw Error(Errc::Corrupt, (folder_ / location).string() +
                                     " ends before the numbers of constant '" + name + "'");
    }
    return all.substr(place.offset, place.length.value_or(std::string_view::npos));
  }

  fs::path folder_;
  OnnxFile file_;
  std::map<std::string, SharedBytes> files_;
};

}  // namespace

OnnxFile parse_onnx(std::string_view content, const fs::path& folder) {
  return FileReader(folder).read(content);
}

OnnxFile read_onnx_file(const fs::path& path) {
  const SharedBytes content = map_file(path);
  try {
    return parse_onnx(content.view, path.parent_path());
  } catch (const Error& error) {
    const bool is_damaged = error.code() == Errc::Corrupt;
    throw Error(error.code(),
                path.string() + ": " + (is_damaged ? "is not an ONNX file, or is damaged: " : "") +
                    error.what() +
                    (is_damaged ? "; in Python, torch.onnx.export() writes one" : ""));
  }
}

}  // namespace dlflow::runtime
