#include "engine/cli/data_names.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/output_file.h"
#include "base/text.h"
#include "runtime/data/names.h"

namespace dlflow {

namespace fs = std::filesystem;
using namespace runtime;

void require_same_names(const fs::path& file, const std::vector<std::string>& names,
                        const std::string& what, const std::string& advice) {
  if (names.empty()) return;
  for (const std::string& name : names) {
    const std::string mistake = name.empty() ? "" : mistake_in_name(name);  // a mask's may be empty
    if (mistake.empty()) continue;
    throw Error(Errc::InvalidInput, file.string() + ": the name '" + escaped(name) +
                                        "' of the source " + mistake + "; change it there");
  }
  const std::vector<std::string> before = read_names(file);
  if (before.empty() || before == names) return;
  throw Error(Errc::InvalidInput, file.string() + " has the " + what + " " + join(before, ", ") +
                                      ", the source has " + join(names, ", ") + "; " + advice);
}

void take_known_classes(const fs::path& file, ImportedSplit& split) {
  const std::vector<std::string> known = read_names(file);
  if (split.source.has_masks || split.classes.size() != split.source.num_classes) return;
  std::map<std::string, uint32_t> label_of;
  for (const std::string& name : known) label_of.emplace(name, uint32_t(label_of.size()));
  if (label_of.size() != known.size()) return;
  for (const std::string& name : split.classes) {
    if (!label_of.contains(name)) return;  // require_same_names() tells it
  }
  for (uint32_t& label : split.source.labels) label = label_of.at(split.classes[label]);
  split.source.num_classes = uint32_t(known.size());
  split.classes = known;
}

void write_names(const fs::path& file, const std::vector<std::string>& names) {
  if (!names.empty()) write_output(file, join(names, "\n") + "\n");
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    std::fprintf(stderr, "warning: %s\n", escaped(note).c_str());
  }
}

std::vector<std::string> notes_on_learning(const fs::path& file, const ImportedSplit& split) {
  const SampleSource& source = split.source;
  if (source.size() == 1) {
    return {file.string() +
            ": has one sample; a network learns nothing general "
            "from it"};
  }
  const bool has_classes = source.num_targets == 0 && !source.has_masks && source.tokenizer.empty();
  const auto differ = std::ranges::adjacent_find(source.labels, std::ranges::not_equal_to());
  if (!has_classes || differ != source.labels.end()) return {};
  const uint32_t label = source.labels[0];
  const std::string name =
      label < split.classes.size() ? split.classes[label] : std::to_string(label);
  return {file.string() + ": all samples are of the class '" + name +
          "'; a network of classes wants two or more"};
}

}  // namespace dlflow
