#include "engine/init/init.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "runtime/data/split_files.h"
#include "runtime/import/masked_pictures.h"
#include "runtime/import/picture.h"
#include "runtime/import/table.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

struct InitKind {
  const char* example;  ///< a command
  const char* meaning;
  bool (*fits)(const fs::path& source);  ///< null: compares endings with the example
  std::vector<InitFile> (*files)(const InitRequest& request);  ///< the workflow first
  const char* advice = nullptr;  ///< commands to type instead; has {source} and {name}
};

/// Whether `fits(file, depth)` is true of a file in `folder` (depth 0) or in its folders (depth 1).
template <typename Fits>
bool holds(const fs::path& folder, const Fits& fits) {
  if (!fs::is_directory(folder)) return false;
  auto entry = fs::recursive_directory_iterator(folder);
  for (; entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    if (entry->is_regular_file() && fits(entry->path(), entry.depth())) return true;
  }
  return false;
}

bool is_picture_folder(const fs::path& source) {
  return holds(source,
               [](const auto& file, int depth) { return depth == 1 && runtime::is_picture(file); });
}

bool is_text(const fs::path& source) {
  const auto fits = [](const fs::path& file, int) { return file.extension() == ".txt"; };
  return fs::is_directory(source) ? holds(source, fits) : fits(source, 0);
}

bool is_batch_script(const fs::path& source) {
  constexpr uintmax_t kMostScriptBytes = 1 << 20;
  return fs::is_regular_file(source) && fs::file_size(source) <= kMostScriptBytes &&
         ("\n" + read_file(source)).find("\n#SBATCH ") != std::string::npos;
}

/// In the order in which they are tried.
constexpr std::array kKinds = {
    InitKind{"houses.csv --target price", "a table; a network learns one column",
             [](const fs::path& source) {
               return fs::is_regular_file(source) && runtime::is_table(source);
             },
             init_table},
    InitKind{"digits", "a folder that `dlflow data pack` wrote",
             [](const fs::path& source) {
               return fs::is_directory(source) &&
                      runtime::find_split(source, runtime::Split::Train).has_value();
             },
             init_data_set},
    InitKind{"streets", "pictures and masks", runtime::has_masked_pictures, nullptr,
             "dlflow data pack {source} -o {name}-data --resize 256x256\n"
             "  and a copy of workflows/segmentation.yaml (docs/user/tutorial-segmentation.md)"},
    InitKind{"photos", "pictures, a folder for each class", is_picture_folder, init_pictures},
    InitKind{"stories", "text", is_text, nullptr,
             "dlflow data pack {source} -o {name}-data --tokens bytes --test-share 0.05\n"
             "  and a copy of workflows/language-model.yaml (docs/user/tutorial-text.md)"},
    InitKind{"images.npy", "arrays", nullptr, nullptr,
             "dlflow data pack {source} LABELS.npy -o {name}-data\n  dlflow init {name}-data"},
    InitKind{"nb.ipynb", "a notebook", nullptr, nullptr,
             "jupyter nbconvert --to script {source}\n  dlflow init {script}"},
    InitKind{"net.onnx", "a network", nullptr, nullptr,
             "dlflow model import {source} -o {name}.yaml\n"
             "  and train from it (docs/user/tutorial-fine-tuning.md)"},
    InitKind{"net.safetensors", "weights", nullptr, nullptr,
             "start_from: {source}\n"
             "  in `with:` of a step that trains (docs/user/tutorial-fine-tuning.md)"},
    InitKind{"job.sh", "a script for sbatch", is_batch_script, init_batch_script},
    InitKind{"train.py", "a script",
             [](const fs::path& source) { return fs::is_regular_file(source); }, init_script},
};

}  // namespace

std::string init_examples() {
  std::string made, told;
  for (const InitKind& kind : kKinds) {
    std::string example = std::string("  dlflow init ") + kind.example;
    example.resize(42, ' ');
    (kind.advice == nullptr ? made : told) += example + kind.meaning + "\n";
  }
  return made + "For these it prints what to type:\n" + told;
}

std::vector<InitFile> init_files(const InitRequest& request) {
  const std::string source = request.source.string();
  runtime::refuse_unreadable(request.source);
  const auto kind = std::ranges::find_if(kKinds, [&](const InitKind& one) {
    return one.fits == nullptr ? request.source.extension() == fs::path(one.example).extension()
                               : one.fits(request.source);
  });
  if (kind == kKinds.end()) {
    const fs::path train = request.source / "train";
    std::string advice = "`dlflow init` lists what it takes";
    if (is_picture_folder(train)) advice = "dlflow init " + shell_quote(train.string()) + " fits";
    throw Error(
        Errc::InvalidInput,
        source + " holds neither a data set, nor pictures in a folder for each class, nor text; " +
            advice);
  }
  if (kind->files != nullptr) return kind->files(request);
  throw Error(
      Errc::InvalidInput,
      "`dlflow init` writes no workflow for " + source + "; type\n  " +
          fmt::format(
              fmt::runtime(kind->advice), fmt::arg("source", shell_quote(source)),
              fmt::arg("name", request.name),
              fmt::arg("script", shell_quote(fs::path(source).replace_extension(".py").string()))));
}

std::string yaml_lines(const std::vector<YamlLine>& lines) {
  std::string text;
  for (const auto& [line, value, is_wanted] : lines) {
    const size_t at = std::min(line.find('@'), line.size());
    if (!is_wanted || (value.empty() && at < line.size())) continue;
    text += line.substr(0, at) + value + (at < line.size() ? line.substr(at + 1) : "") + "\n";
  }
  return text;
}

std::string yaml_pairs(const std::vector<YamlLine>& pairs) {
  std::vector<std::string> texts;
  for (const auto& [key, value, is_wanted] : pairs) {
    if (is_wanted && !value.empty()) texts.push_back(key + ": " + value);
  }
  return join(texts, ", ");
}

std::string as_name(const std::string& text) {
  const std::regex no_text("null|true|false|yes|no|on|off|y|n", std::regex::icase);
  const std::string name = std::regex_replace(text, std::regex("[^A-Za-z0-9_-]"), "-");
  const bool is_name = std::regex_match(name, std::regex("[A-Za-z_].*"));
  return is_name && !std::regex_match(name, no_text) ? name : "w-" + name;
}

std::string yaml_quote(const std::string& text) { return Json(text).dump(); }

std::string yaml_word(const std::string& word) {
  return as_name(word) == word ? word : yaml_quote(word);
}

std::vector<std::string> matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    if (std::ranges::find(found, at->str()) == found.end()) found.push_back(at->str());
  }
  return found;
}

std::string yaml_inputs(const std::vector<std::string>& inputs) {
  std::string text;
  for (const std::string& input : inputs) {
    const std::string quoted = yaml_quote(input);
    text += "\n      - " + (input.starts_with("/") ? "{path: " + quoted + "}" : quoted);
  }
  return text.empty() ? ""
                      : "    inputs:  # what it reads; if it changes, the step runs again" + text;
}

std::string named_by_workflow(const fs::path& path, const fs::path& file) {
  fs::path named = fs::absolute(path).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();  // "digits/"
  const fs::path real = fs::weakly_canonical(named.parent_path()) / named.filename();
  const fs::path below =
      real.lexically_relative(fs::weakly_canonical(fs::absolute(file).parent_path()));
  const bool is_below = !below.empty() && below != "." && *below.begin() != "..";
  return (is_below ? below : named).string();
}

}  // namespace dlflow
