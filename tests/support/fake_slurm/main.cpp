#include <cstdio>
#include <filesystem>
#include <map>

#include "tests/support/fake_slurm/call.h"

/// Acts as sbatch, squeue, … or fake-slurm, depending on its name.
int main(int argc, char** argv) {
  using namespace dlflow::fake_slurm;
  using Command = int (*)(Call&);
  const std::map<std::string, Command> commands = {
      {"sbatch", sbatch},   {"squeue", squeue}, {"sacct", sacct},       {"scontrol", scontrol},
      {"scancel", scancel}, {"sinfo", sinfo},   {"fake-slurm", control}};
  const std::vector<std::string> words(argv, argv + argc);
  try {
    const std::string name = std::filesystem::path(words.at(0)).filename().string();
    if (words.size() == 5 && words[1] == "run-task") {
      return run_task(JobId(std::stoul(words[2])), std::stoi(words[3]), std::stoi(words[4]));
    }
    const Command command = commands.at(name);
    Call call(words, command != control);
    return call.finish(command(call));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake-slurm: %s\n", error.what());
    return 2;
  }
}
