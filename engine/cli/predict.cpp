#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/process.h"
#include "base/shared_bytes.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "runtime/checkpoint/checkpoint_manifest.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

struct PredictArguments {
  std::string network, data, output;
  std::vector<std::string> origin;
};

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / runtime::kManifestFile); }

/// The checkpoint that `word` names: itself, the newest in it, or the model of the run `word`.
fs::path checkpoint_of(Session& session, const std::string& word) {
  if (is_checkpoint(word)) return word;
  if (fs::exists(word) && !fs::is_directory(word)) {
    throw Error(Errc::InvalidInput,
                word +
                    " is a file; first name the network: a run, a checkpoint, or a folder of "
                    "checkpoints");
  }
  if (const auto latest = runtime::latest_valid(word); latest.path) return *latest.path;
  const RunStatus run = read_run(session, find_run(session, word));
  std::vector<std::string> found;
  for (const JobRow& job : run.jobs) {
    const Json model = job.outputs.value("model", Json());
    const std::string folder = model.is_string() ? model.get<std::string>() : "";
    if (!folder.empty() && is_checkpoint(folder)) found.push_back(folder);
  }
  if (found.size() == 1) return found.front();
  throw Error(Errc::NotFound,
              found.empty() ? run.run + " has no checkpoint of a step `uses: train` that has ended"
                            : run.run + " has several networks; name one: " + join(found, ", "));
}

/// "csv" or "npy", from the name of the output.
std::string format_of(const fs::path& output) {
  if (output.empty() || output.extension() == ".csv") return "csv";
  if (output.extension() == ".npy") return "npy";
  throw UsageError(output.string() + " ends neither in .csv nor, for an array of scores, in .npy");
}

void predict(Session& session, const PredictArguments& arguments) {
  const std::string format = format_of(arguments.output);
  const TemporaryFolder room(fs::temp_directory_path() / "dlflow-predict");
  Command command = step_program("dlflow-predict", room.path(), {"with.json"});
  const fs::path checkpoint = checkpoint_of(session, arguments.network);
  Json with = {{"checkpoint", fs::absolute(checkpoint).string()},
               {"data", fs::absolute(arguments.data).string()},
               {"format", format}};
  if (!arguments.origin.empty()) with["origin"] = arguments.origin;
  write_output(room.path() / "with.json", with.dump());
  command.environment.push_back("DLFLOW_CPUS_PER_RANK=" + std::to_string(usable_cores()));
  command.standard_output = "/dev/null";
  command.dies_with_parent = true;
  ::signal(SIGINT, [](int) {});  // ends only the program: the room must still be removed
  if (const ExitStatus status = wait_for(start(command)); status.code != 0) {
    session.status = status.signal == SIGINT ? kInterrupted : kBadInput;  // it has printed why
    return;
  }
  const SharedBytes made = map_file(room.path() / "outputs" / ("predictions." + format));
  if (!arguments.output.empty()) return write_output(arguments.output, made.view);
  std::fwrite(made.view.data(), 1, made.view.size(), stdout);
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "predict",
      "Print the classes, or numbers, that a trained network gives to new pictures, rows of a "
      "table or texts, as CSV.",
      R"(
  dlflow predict birds-7f3a91c0 photos > classes.csv
  dlflow predict houses-5e0c41d2 new.csv -o prices.csv
  dlflow predict checkpoints/step-001720 photo.jpg -o scores.npy)");
  const auto arguments = std::make_shared<PredictArguments>();
  add_value(*command, "network", "RUN|CHECKPOINT", arguments->network,
            "a run that has trained a network, a checkpoint, or a folder of checkpoints")
      ->required();
  add_value(*command, "data", "WHAT", arguments->data,
            "a picture, a table, a text, a folder of pictures or texts, or a data set")
      ->required();
  add_output_option(*command, arguments->output,
                    "a .csv file; or an .npy file, for an array of the scores of all classes");
  add_repeated_option(*command, "--origin", "LINE", arguments->origin,
                      "for a checkpoint without them, the lines of columns.txt beside its data: "
                      "'resize 256', 'crop 224', 'feature COLUMN' in order, 'text COLUMN'");
  command->callback([&session, arguments] { predict(session, *arguments); });
}

}  // namespace dlflow
