#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "runtime/data/loader.h"
#include "runtime/settings/evaluate_settings.h"
#include "runtime/text/token_samples.h"
#include "runtime/train/agreement.h"
#include "runtime/train/class_metrics.h"
#include "runtime/train/evaluation.h"
#include "runtime/train/rate.h"
#include "runtime/train/shared_split.h"
#include "runtime/train/trained_network.h"
#include "steps/environment/step_environment.h"
#include "steps/ranks/launch.h"
#include "steps/ranks/program.h"
#include "steps/scratch/node_data.h"

/// dlflow-evaluate: the step kind `evaluate`.
namespace dlflow::steps {
namespace {

using Clock = std::chrono::steady_clock;

ProgramHelp program_help() {
  return {.name = "dlflow-evaluate",
          .summary = "Measure a trained network on data that it has not seen.",
          .commands = {{"dlflow-evaluate with.json", "one rank, results in the current folder"},
                       {"mpirun -np 2 dlflow-evaluate with.json",
                        "the same results, in half the time"}},
          .settings =
              "with.json has the keys of an `evaluate` step, documented in "
              "docs/user/format/kinds.md. The checkpoint\nis a folder and carries the model, "
              "the data is a folder with the test split:",
          .example = R"({"checkpoint": "checkpoints/step-001720", "data": "data", "batch": 256})",
          .variables = variables_of_ranks(
              {{"DLFLOW_SCRATCH", "$TMPDIR, else /tmp; where `scratch` has data"},
               {"DLFLOW_SCRATCH_BUDGET",
                "no limit; maximum size of all such copies together, for example 50GiB"}}),
          .exit_status = {{"0", "done; accuracy and loss are printed"}, {"1", "it failed"}}};
}

/// Logs the progress twice a second.
class ProgressLog {
 public:
  ProgressLog(const std::filesystem::path& file, const runtime::Rate& rate)
      : file_(file), rate_(rate) {}

  void report(size_t done, size_t total) {
    const auto now = Clock::now();
    if (now - last_ < std::chrono::milliseconds(500)) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - started_).count();
    file_.append(Json{{"progress", double(done) / double(total)},
                      {rate_.metric, std::round(rate_.of(double(done) / seconds))},
                      {"eta_s", std::round(seconds / double(done) * double(total - done))}}
                     .dump());
  }

 private:
  AppendFile file_;
  runtime::Rate rate_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point last_ = started_;
};

/// Above this number, classes are not reported one by one.
constexpr size_t kMostClasses = 1000;
constexpr size_t kMostPrinted = 20;

/// A row for each labelled class, a column for each predicted class. Uses the names of the classes
/// if all have different ones, else their numbers.
std::string confusion_csv(std::span<const int64_t> matrix, size_t classes,
                          const std::vector<std::string>& names) {
  const std::set<std::string> different(names.begin(), names.end());
  const bool named = different.size() == classes && names.size() == classes;
  std::vector<std::string> fields;
  for (size_t c = 0; c < classes; ++c) {
    fields.push_back(named ? csv_field(names[c]) : std::to_string(c));
  }
  std::string text = "label";
  for (const std::string& field : fields) text += "," + field;
  for (size_t i = 0; i < matrix.size(); ++i) {
    text += i % classes == 0 ? "\n" + fields[i / classes] + "," : ",";
    text += std::to_string(matrix[i]);
  }
  return text + "\n";
}

/// "3", or "3 dress"
std::string shown_class(size_t c, const std::vector<std::string>& names) {
  const std::string number = std::to_string(c);
  return c < names.size() ? number + " " + escaped(names[c]) : number;
}

void print_class(const std::string& shown, const runtime::ClassCounts& counts) {
  std::printf("%-20s %8lld %9.4f", shown.c_str(), static_cast<long long>(counts.samples),
              double(counts.correct) / double(std::max<int64_t>(counts.samples, 1)));
}

/// The class most often predicted for samples of class `c`, other than `c`.
std::optional<size_t> most_taken_for(size_t c, std::span<const int64_t> row) {
  std::optional<size_t> most;
  for (size_t j = 0; j < row.size(); ++j) {
    if (j != c && row[j] > (most ? row[*most] : 0)) most = j;
  }
  return most;
}

/// Reports the accuracy of each class on standard output and in the summary; writes the confusion
/// matrix to a file beside the metrics.
void tell_classes(const StepEnvironment& environment, const runtime::TrainedNetwork& network,
                  const runtime::Dataset& data, const runtime::Evaluation& result, Json& summary) {
  const auto classes = size_t(network.model.num_classes());
  if (classes > kMostClasses) return;
  const std::vector<uint32_t> labels = data.labels.copy();
  const auto counts = runtime::count_classes(labels, result.predicted, classes);
  const auto matrix = runtime::confusion_matrix(labels, result.predicted, classes);
  write_output(environment.metrics.parent_path() / "confusion.csv",
               confusion_csv(matrix, classes, network.classes));
  if (classes <= kMostPrinted)
    std::printf("%-20s %8s %9s  most often taken for\n", "class", "samples", "accuracy");
  const std::vector<std::string> keys = runtime::class_keys(network.classes, classes);
  for (size_t c = 0; c < classes; ++c) {
    if (counts[c].samples == 0) continue;
    summary["accuracy_of_" + keys[c]] = double(counts[c].correct) / double(counts[c].samples);
    if (classes > kMostPrinted) continue;
    print_class(shown_class(c, network.classes), counts[c]);
    const std::span<const int64_t> row = std::span(matrix).subspan(c * classes, classes);
    if (const auto other = most_taken_for(c, row)) {
      std::printf("  %s (%lld)", shown_class(*other, network.classes).c_str(),
                  static_cast<long long>(row[*other]));
    }
    std::printf("\n");
  }
}

/// For networks with a class per pixel: reports the IoU of each class on standard output and in the
/// summary; writes the confusion matrix of pixels to a file beside the metrics.
void tell_classes_of_pixels(const StepEnvironment& environment,
                            const runtime::TrainedNetwork& network,
                            const runtime::Evaluation& result, Json& summary) {
  const auto classes = size_t(network.model.num_classes());
  const auto counts = runtime::count_classes(result.pixels, classes);
  write_output(environment.metrics.parent_path() / "confusion.csv",
               confusion_csv(result.pixels, classes, network.classes));
  if (classes <= kMostPrinted) std::printf("    pixels       iou  class\n");
  const std::vector<std::string> keys = runtime::class_keys(network.classes, classes);
  for (size_t c = 0; c < classes; ++c) {
    const int64_t either = counts[c].samples + counts[c].predicted - counts[c].correct;
    if (either == 0) continue;
    const double iou = double(counts[c].correct) / double(either);
    summary["iou_of_" + keys[c]] = iou;
    if (classes > kMostPrinted) continue;
    std::printf("%10lld %9.4f  %s\n", static_cast<long long>(counts[c].samples), iou,
                shown_class(c, network.classes).c_str());
  }
}

/// `bits_per_byte` of a language model, if its tokenizer is beside the data in `folder`. Nothing if
/// the loss ignores some tokens.
std::optional<double> compression_of(const runtime::Model& model, const runtime::Dataset& data,
                                     const std::string& folder, double loss) {
  const bool counts_all = model.loss == runtime::LossKind::NextToken && !model.ignored_token;
  if (!counts_all || data.tokenizer.empty()) return std::nullopt;
  const bool of_bytes = data.tokenizer == runtime::Vocabulary::bytes().id();
  const auto file = std::filesystem::path(folder) / runtime::kTokenizerFile;
  if (!of_bytes && !std::filesystem::exists(file)) return std::nullopt;
  return runtime::bits_per_byte(loss, data, runtime::read_vocabulary(data.tokenizer, folder));
}

void require_fitting(runtime::Communicator& comm, const runtime::TrainedNetwork& network,
                     runtime::SharedSplit& split) {
  runtime::require_agreement(comm, {{"the test data", split.identity}});
  runtime::require_fitting(network.model, split.dataset, "the test data");
  runtime::require_same_tokens(network, split.dataset, "the test data");
}

void print_results(const runtime::Evaluation& result, size_t samples) {
  if (result.rmse) std::printf("rmse %.4f, ", *result.rmse);
  if (result.mae) std::printf("mae %.4f, ", *result.mae);
  if (result.iou) {
    std::printf("iou %.4f, dice %.4f, pixel accuracy %.4f, ", *result.iou, *result.dice,
                result.accuracy);
  } else if (!result.rmse) {
    std::printf("accuracy %.4f, ", result.accuracy);
  }
  std::printf("loss %.4f, %zu samples\n", result.loss, samples);
  if (result.f1) std::printf("f1 %.4f (mean over classes)\n", *result.f1);
  if (result.auc) std::printf("auc %.4f (each class against the rest)\n", *result.auc);
}

/// Prints the results and adds the metrics to the summary. \param folder  of the data
void tell_results(const StepEnvironment& environment, const runtime::TrainedNetwork& network,
                  const runtime::Dataset& data, const std::string& folder,
                  const runtime::Evaluation& result, Json& summary) {
  if (!result.is_measured) {
    std::printf("not measured: all pixels or tokens of the test data are ignored\n");
    return;
  }
  print_results(result, data.size());
  for (const auto& [name, value] : result.metrics()) summary[name] = value;
  if (const auto bits = compression_of(network.model, data, folder, result.loss)) {
    std::printf("%.4f bits per byte of text\n", *bits);
    summary["bits_per_byte"] = *bits;
  }
  if (result.f1) tell_classes(environment, network, data, result, summary);
  if (result.iou) tell_classes_of_pixels(environment, network, result, summary);
}

int evaluate_rank(runtime::Communicator& comm) {
  const StepEnvironment environment = read_step_environment();
  const auto settings = runtime::parse_evaluate_settings(environment.with);
  runtime::TrainedNetwork network =
      runtime::load_trained_network(comm, settings.checkpoint, settings.batch);
  const NodeData place =
      settings.scratch ? NodeData(comm, settings.data, runtime::Split::Test, environment.metrics)
                       : NodeData(settings.data);
  runtime::SharedSplit split =
      runtime::open_shared_split(comm, place.folder(), runtime::Split::Test);
  require_fitting(comm, network, split);
  const runtime::Dataset& data = split.dataset;

  std::optional<ProgressLog> log;
  const runtime::Rate rate = runtime::rate_of(network.model, data);
  if (comm.rank() == 0) log.emplace(environment.metrics, rate);
  const auto started = Clock::now();
  const runtime::Evaluation result = runtime::evaluate(
      comm, network.model, runtime::inference_with(network.networks, network.weights.floats()),
      {data, network.normalization, settings.batch, split.images.get(),
       runtime::loader_threads(settings.loader_threads, data, threads_per_rank())},
      [&](size_t done, size_t total) {
        if (log) log->report(done, total);
      });
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  if (comm.rank() != 0) return 0;
  write_outputs(environment, Json::object());
  Json summary = {{"samples", data.size()},
                  {rate.metric, std::round(rate.of(double(data.size()) / seconds))}};
  tell_results(environment, network, data, settings.data, result, summary);
  write_summary(environment, summary);
  return 0;
}

}  // namespace
}  // namespace dlflow::steps

int main(int argc, char** argv) {
  using namespace dlflow::steps;
  return run_program({.help = program_help(), .task = "evaluate", .work = evaluate_rank}, argc,
                     argv);
}
