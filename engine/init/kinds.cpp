#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "engine/init/init.h"
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
  bool (*fits)(const fs::path& source);
  std::vector<InitFile> (*files)(const InitRequest& request);  ///< the workflow first
  const char* advice = nullptr;  ///< instead of files: what to type, with $SOURCE and $NAME
};

/// Whether a file in `folder`, or in a folder in it, is of the kind that `fits` tells.
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

bool is_data_set(const fs::path& source) {
  return fs::is_directory(source) && runtime::find_split(source, runtime::Split::Train);
}

bool is_picture_folder(const fs::path& source) {
  return holds(source, [](const fs::path& file, int depth) {
    return depth == 1 && runtime::is_picture(file);
  });
}

bool is_table_file(const fs::path& source) {
  return fs::is_regular_file(source) && runtime::is_table(source);
}

bool is_text(const fs::path& source) {
  const auto fits = [](const fs::path& file, int) { return file.extension() == ".txt"; };
  return fs::is_directory(source) ? holds(source, fits) : fits(source, 0);
}

bool is_array(const fs::path& source) { return source.extension() == ".npy"; }
bool is_onnx(const fs::path& source) { return source.extension() == ".onnx"; }
bool is_weights(const fs::path& source) { return source.extension() == ".safetensors"; }

bool is_batch_script(const fs::path& source) {
  constexpr uintmax_t kMostBytes = 1 << 20;
  if (!fs::is_regular_file(source) || fs::file_size(source) > kMostBytes) return false;
  return ("\n" + read_file(source)).find("\n#SBATCH ") != std::string::npos;
}

bool is_file(const fs::path& source) { return fs::is_regular_file(source); }

/// In the order in which they are tried.
constexpr std::array kKinds = {
    InitKind{"dlflow init houses.csv --target price", "a table: a network learns a column",
             is_table_file, init_table},
    InitKind{"dlflow init digits", "a folder that `dlflow data pack` wrote", is_data_set,
             init_data_set},
    InitKind{"dlflow init streets", "pictures and masks", runtime::has_masked_pictures, nullptr,
             "dlflow data pack $SOURCE -o $NAME-data --resize 256x256\n"
             "  and a copy of workflows/segmentation.yaml (docs/user/tutorial-segmentation.md)"},
    InitKind{"dlflow init photos", "pictures, a folder for each class", is_picture_folder,
             init_pictures},
    InitKind{"dlflow init stories", "text", is_text, nullptr,
             "dlflow data pack $SOURCE -o $NAME-data --tokens bytes --test-share 0.05\n"
             "  and a copy of workflows/language-model.yaml (docs/user/tutorial-text.md)"},
    InitKind{"dlflow init images.npy", "arrays", is_array, nullptr,
             "dlflow data pack $SOURCE LABELS.npy -o $NAME-data\n  dlflow init $NAME-data"},
    InitKind{"dlflow init net.onnx", "a network", is_onnx, nullptr,
             "dlflow model import $SOURCE -o $NAME.yaml\n"
             "  and train from it (docs/user/tutorial-fine-tuning.md)"},
    InitKind{"dlflow init net.safetensors", "weights", is_weights, nullptr,
             "start_from: $SOURCE\n"
             "  in `with:` of a step that trains (docs/user/tutorial-fine-tuning.md)"},
    InitKind{"dlflow init job.sh", "a script for sbatch", is_batch_script, init_batch_script},
    InitKind{"dlflow init train.py", "a script", is_file, init_script},
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

}  // namespace

std::string init_examples() {
  std::string made, told;
  for (const InitKind& kind : kKinds) {
    const std::string example = kind.example;
    (kind.advice == nullptr ? made : told) +=
        "  " + example + std::string(40 - example.size(), ' ') + kind.meaning + "\n";
  }
  return made + "For these it prints what to type:\n" + told;
}

std::vector<InitFile> init_files(const InitRequest& request) {
  const std::string source = request.source.string();
  runtime::refuse_unreadable(request.source);
  const auto kind =
      std::ranges::find_if(kKinds, [&](const InitKind& one) { return one.fits(request.source); });
  if (kind == kKinds.end()) {
    throw Error(Errc::InvalidInput,
                source +
                    " holds neither a data set, nor pictures in a folder for each class, nor "
                    "text; `dlflow init` lists what it takes");
  }
  if (kind->files != nullptr) return kind->files(request);
  const std::string advice = replaced(kind->advice, "$SOURCE", shell_quote(source));
  throw Error(Errc::InvalidInput, "for " + source + " there is no workflow to write; type\n  " +
                                      replaced(advice, "$NAME", request.name));
}

}  // namespace dlflow
