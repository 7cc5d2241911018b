#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/process.h"
#include "base/text.h"
#include "tests/support/fake_slurm/call.h"
#include "tests/support/fake_slurm/format.h"
#include "tests/support/fake_slurm/sbatch_options.h"
#include "tests/support/fake_slurm/schedule.h"

namespace dlflow::fake_slurm {
namespace {

namespace fs = std::filesystem;

struct Script {
  std::string name;  ///< the file's; "sbatch" from standard input, "wrap" with --wrap
  std::string path;
  std::string text;
};

/// Throws BadOption.
void check_script(const std::string& text) {
  if (text.empty()) throw BadOption{"Batch script is empty!", 1};
  if (trim(text).empty()) throw BadOption{"Batch script contains only whitespace!", 1};
  if (!text.starts_with("#!")) {
    throw BadOption{
        "This does not look like a batch script.  The first\n"
        "sbatch: error: line must start with #! followed by the path to an interpreter.\n"
        "sbatch: error: For instance: #!/bin/sh",
        1};
  }
  if (text.find('\0') != text.npos) {
    throw BadOption{
        "The Slurm controller does not allow scripts that\n"
        "sbatch: error: contain a NULL character '\\0'.",
        1};
  }
  if (text.find("\r\n") != text.npos) {
    throw BadOption{
        "Batch script contains DOS line breaks (\\r\\n)\n"
        "sbatch: error: instead of expected UNIX line breaks (\\n).",
        1};
  }
}

Script read_script(const Words& words) {
  Script script;
  if (const std::string* command = words.find("wrap")) {
    return {"wrap", "",
            "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n" + *command + "\n"};
  }
  if (words.rest.empty()) {
    script.name = "sbatch";
    script.text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    const fs::path path = words.rest.front();
    const auto text = fs::is_regular_file(path) ? read_file_if_exists(path) : std::nullopt;
    if (!text) throw BadOption{"Unable to open file " + path.string(), 1};
    script = {path.filename().string(), fs::absolute(path).string(), *text};
  }
  check_script(script.text);
  return script;
}

/// What --export leaves of the environment.
std::vector<std::string> exported(const std::string& rule) {
  const std::vector<std::string> words = split(rule, ',');
  const bool all = rule.empty() || words.front() == "ALL";
  std::vector<std::string> environment;
  for (const std::string& entry : current_environment()) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool needed = name == "PATH" || name == "HOME" || name == "FAKE_SLURM";
    const bool named = std::find(words.begin(), words.end(), name) != words.end();
    if (all || needed || named) environment.push_back(entry);
  }
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos) environment.push_back(word);
  }
  return environment;
}

/// Keeps script and environment for the time when the job starts.
std::string store(const fs::path& folder, const Script& script,
                  const std::vector<std::string>& environment) {
  make_directories(folder / "scripts");
  const auto count = std::distance(fs::directory_iterator(folder / "scripts"), {});
  const std::string stored = "scripts/" + std::to_string(count);
  make_directories(folder / stored);
  write_file_atomic(folder / stored / "slurm_script", script.text);
  fs::permissions(folder / stored / "slurm_script", fs::perms::owner_all);
  write_file_atomic(folder / stored / "environment", Json(environment).dump());
  return stored;
}

Request defaults(const Config& config, const Script& script, const Words& words) {
  Request request;
  request.name = script.name;
  request.user = user_name();
  request.directory = fs::current_path().string();
  request.requeue = config.requeue_by_default;
  request.script_path = script.path;
  if (!words.rest.empty()) request.arguments.assign(words.rest.begin() + 1, words.rest.end());
  return request;
}

int submit_to(Call& call, Request request, const Words& words) {
  try {
    call.request();
    if (auto late = call.take_late()) {
      late->request = std::move(request);
      call.world().late.push_back(std::move(*late));
      call.reply();
    }
    const JobId id = submit(call.world(), std::move(request));
    look_again(call.world());
    call.reply();
    const Config& config = call.world().config;
    if (words.has("quiet")) return 0;
    if (words.has("parsable")) {
      call.out = std::to_string(id) + (config.federation ? ";" + config.cluster : "") + "\n";
    } else {
      call.out = "Submitted batch job " + std::to_string(id);
      call.out += (config.federation ? " on cluster " + config.cluster : "") + "\n";
    }
    return 0;
  } catch (const Unreachable& error) {
    return call.fail("Batch job submission failed: " + error.text);
  } catch (const Refused& refused) {
    if (refused.busy) {  // it would sleep and try again for two minutes
      call.fail("Slurm temporarily unable to accept job, sleeping and retrying");
    }
    if (!refused.before.empty()) call.fail(refused.before);
    return call.fail("Batch job submission failed: " + refused.text);
  }
}

}  // namespace

int sbatch(Call& call) {
  const Config& config = call.world().config;
  const auto options = sbatch_options(config.version);
  const auto words = parse_words(call.argv(), options, true);
  const std::string try_help = "Try \"sbatch --help\" for more information\n";
  if (!words) {
    call.err = try_help;
    return 255;
  }
  if (words->has("version")) {
    call.out = version_text(config.version) + "\n";
    return 0;
  }
  try {
    const Script script = read_script(*words);
    const auto in_script = parse_words(script_options(script.text), options, true);
    if (!in_script) {
      call.err = try_help;
      return 255;
    }
    if (!in_script->rest.empty()) {
      throw BadOption{"Invalid directive found in batch script: " + in_script->rest.front()};
    }
    Request request = defaults(config, script, *words);
    apply(*in_script, call.world().now, request);
    apply(*words, call.world().now, request);
    request.directory = fs::absolute(request.directory).lexically_normal().string();
    const std::string* rule = words->find("export");
    if (rule == nullptr) rule = in_script->find("export");
    request.stored = store(call.folder(), script, exported(rule == nullptr ? "" : *rule));
    if (words->has("test-only")) return 0;
    return submit_to(call, std::move(request), *words);
  } catch (const BadOption& bad) {
    if (!bad.plain.empty()) call.err += bad.plain + "\n";
    call.fail(bad.text);
    return bad.status;
  }
}

}  // namespace dlflow::fake_slurm
