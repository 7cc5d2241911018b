#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/output_file.h"
#include "base/parse_json.h"
#include "base/process.h"
#include "base/shared_bytes.h"
#include "base/temporary_folder.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/cli/commands.h"
#include "engine/cli/usage.h"
#include "runtime/checkpoint/checkpoint_manifest.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

struct PredictArguments {
  std::string network, data, output, resize, crop, text;
  std::vector<std::string> features;
};

bool is_checkpoint(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / runtime::kManifestFile, none);
}

/// The checkpoint in `run` that its training gave as its model.
fs::path checkpoint_of_run(const RunStatus& run) {
  std::vector<std::string> found;
  for (const JobRow& job : run.jobs) {
    const Json model = job.outputs.value("model", Json());
    if (model.is_string() && is_checkpoint(model.get<std::string>())) found.push_back(model);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    throw Error(Errc::NotFound, "no step `uses: train` of " + run.run +
                                    " has ended with a checkpoint that is there; `dlflow status " +
                                    run.run + "` shows the steps");
  }
  throw Error(Errc::InvalidInput,
              run.run + " has several networks; name the folder of one: " + join(found, ", "));
}

/// The checkpoint that `word` names: itself, the newest of its folder, or that of a run.
fs::path checkpoint_of(Session& session, const std::string& word) {
  if (is_checkpoint(word)) return word;
  const runtime::LatestCheckpoint latest = runtime::latest_valid(word);
  return latest.path ? *latest.path : checkpoint_of_run(read_run(session, find_run(session, word)));
}

/// "csv" or "npy", from the name of the output.
std::string format_of(const fs::path& output) {
  const std::string ending = output.extension().string();
  if (output.empty() || ending == ".csv") return "csv";
  if (ending == ".npy") return "npy";
  throw UsageError("-o " + output.string() +
                   ": name a file that ends in .csv, or in .npy for the scores of all classes");
}

Json with_of(const PredictArguments& arguments, const fs::path& checkpoint) {
  Json with = {{"checkpoint", checkpoint.string()},
               {"data", arguments.data},
               {"format", format_of(arguments.output)}};
  if (!arguments.resize.empty()) with["resize"] = arguments.resize;
  if (!arguments.crop.empty()) with["crop"] = arguments.crop;
  if (!arguments.text.empty()) with["text"] = arguments.text;
  if (!arguments.features.empty()) with["features"] = arguments.features;
  return with;
}

/// The environment of a step with its files in `room`, on all cores that are free for it.
std::vector<std::string> environment_in(const fs::path& room) {
  std::vector<std::string> environment = current_environment();
  std::erase_if(environment, [](const std::string& one) { return one.starts_with("DLFLOW_"); });
  environment.push_back("DLFLOW_CPUS_PER_RANK=" + std::to_string(usable_cores()));
  environment.push_back("DLFLOW_WITH=" + (room / "with.json").string());
  environment.push_back("DLFLOW_OUTPUTS=" + room.string());
  environment.push_back("DLFLOW_METRICS=" + (room / "metrics.jsonl").string());
  environment.push_back("DLFLOW_SUMMARY=" + (room / "metrics.json").string());
  return environment;
}

void hand_over(const fs::path& made, const fs::path& output) {
  const SharedBytes content = map_file(made);
  if (!output.empty()) return write_output(output, content.view);
  std::fwrite(content.view.data(), 1, content.view.size(), stdout);
}

void predict(Session& session, const PredictArguments& arguments) {
  const fs::path program = this_program().parent_path() / "dlflow-predict";
  if (!fs::exists(program)) {
    throw Error(Errc::NotFound, "`dlflow predict` needs " + program.string() +
                                    ", which is not there; install it beside dlflow");
  }
  const Json with = with_of(arguments, checkpoint_of(session, arguments.network));
  const TemporaryFolder room(fs::temp_directory_path() / "dlflow-predict");
  write_output(room.path() / "with.json", with.dump());
  Command command;
  command.argv = {program.string()};
  command.environment = environment_in(room.path());
  command.standard_output = "/dev/null";
  command.dies_with_parent = true;
  if (const ExitStatus end = wait_for(start(command)); end.code != 0) {
    session.status = end.signal == 0 ? kBadInput : kStepFailed;  // the program has said why
    return;
  }
  hand_over(room.path() / ("predictions." + with["format"].get<std::string>()), arguments.output);
  if (arguments.output.empty() || session.quiet) return;
  const Json metrics = parse_json(read_file(room.path() / "metrics.json"));
  std::printf("%s: %s samples\n", escaped(arguments.output).c_str(),
              format_count(metrics.at("samples").get<uint64_t>()).c_str());
}

}  // namespace

void add_predict(CLI::App& app, Session& session) {
  CLI::App* command = add_command(
      app, "predict",
      "Print the classes, or the numbers, that a trained network gives to new pictures, rows of a "
      "table, or texts, as a CSV file.",
      R"(
  dlflow predict birds-7f3a91c0 photos > classes.csv
  dlflow predict houses-5e0c41d2 new.csv -o prices.csv
  dlflow predict checkpoints/step-001720 photo.jpg -o scores.npy)");
  const auto arguments = std::make_shared<PredictArguments>();
  add_value(*command, "network", "RUN|CHECKPOINT", arguments->network,
            "a run that has trained a network, a checkpoint, or a folder of them")
      ->required();
  add_value(*command, "data", "WHAT", arguments->data,
            "a picture, a table, a text, a folder of pictures or texts, or a data set")
      ->required();
  add_output_option(*command, arguments->output,
                    "a file .csv, or .npy with the scores of all classes, instead of printing");
  add_value(*command, "--resize", "N|WxH", arguments->resize,
            "as in `dlflow data pack`, if the checkpoint does not record it");
  add_value(*command, "--crop", "N|WxH", arguments->crop, "the same for the crop of pictures");
  add_value(*command, "--features", "COLUMN,…", arguments->features,
            "the same for the columns of a table, in the order of the training")
      ->delimiter(',')
      ->expected(1);
  add_value(*command, "--text", "COLUMN", arguments->text, "the same for the column of texts");
  command->callback([&session, arguments] { predict(session, *arguments); });
}

}  // namespace dlflow
