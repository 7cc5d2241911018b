#include "engine/slurm/batch_file.h"

#include <functional>

#include "base/error.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace dlflow;
namespace fs = std::filesystem;

namespace {

JobSpec spec(const std::string& job) {
  JobSpec spec;
  spec.run = "demo-1";
  spec.job = job;
  spec.step = "train";
  spec.run_command = "echo \"[1,\"\nexit 3";
  spec.run_directory = "/runs/demo-1";
  spec.job_directory = "/runs/demo-1/steps/train";
  return spec;
}

Errc code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no Error was thrown");
  return {};
}

}  // namespace

TEST_CASE("a batch file gives back what was written, task by task", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), "demo-1.1.train.5c1e");
  const std::vector<BatchTask> tasks = {{1, 1, spec("train[n=1]")}, {12, 3, spec("train[n=12]")}};
  write_batch_file(file, tasks);

  const BatchTask task = read_batch_task(file, 12);
  CHECK(task.task == 12);
  CHECK(task.attempt == 3);
  CHECK(to_json(task.spec) == to_json(spec("train[n=12]")));
  const std::vector<BatchEntry> entries = read_batch_entries(file);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].job == "train[n=1]");
  CHECK(entries[1].task == 12);
  CHECK(entries[1].attempt == 3);
}

TEST_CASE("a task or a batch that is not there is named", "[slurm]") {
  const test::TempDir run;
  const fs::path file = batch_file(run.path(), "demo-1.1.train.5c1e");
  CHECK(code_of([&] { read_batch_task(file, 0); }) == Errc::NotFound);
  write_batch_file(file, std::vector<BatchTask>{{10, 1, spec("train")}});
  CHECK(code_of([&] { read_batch_task(file, 1); }) == Errc::NotFound);
  CHECK_THROWS_WITH(read_batch_task(file, 1), Catch::Contains("has no task 1"));
}

TEST_CASE("a damaged batch file is an error, whatever the damage", "[slurm]") {
  const test::TempDir run;
  const std::string damage = GENERATE("[0,1", "[0,1,\"a\"]", "[0,\"x\",\"a\",{}]", "[0,1,7,{}]",
                                      "[0,1,\"a\",\"x\"]", "[0,1,\"a\",{}]");
  const fs::path file = run.write("batches/demo-1.1.a.5c1e.jsonl", damage + "\n");
  CHECK(code_of([&] { read_batch_task(file, 0); }) == Errc::Corrupt);
}

TEST_CASE("entries of a damaged batch file are an error", "[slurm]") {
  const test::TempDir run;
  const std::string damage =
      GENERATE("[0,1", "{}", "[\"x\",1,\"a\",{}]", "[-1,1,\"a\",{}]", "[0,1,7,{}]");
  const fs::path file = run.write("batches/demo-1.1.a.5c1e.jsonl", damage + "\n");
  CHECK(code_of([&] { read_batch_entries(file); }) == Errc::Corrupt);
}

TEST_CASE("batches are listed in the order they were made", "[slurm]") {
  const test::TempDir folder;
  const fs::path run = folder.path() / "demo-1";
  CHECK(batch_names(run).empty());
  for (const char* name : {"demo-1.10.c.5c1e", "demo-1.9.b.5c1e", "demo-1.1.a.5c1e"}) {
    write_batch_file(batch_file(run, name), std::vector<BatchTask>{{0, 1, spec("train")}});
  }
  folder.write("demo-1/batches/demo-1.1.a.5c1e.log", "");
  folder.write("demo-1/batches/other.2.a.5c1e.jsonl", "");
  CHECK(batch_names(run) ==
        std::vector<std::string>{"demo-1.1.a.5c1e", "demo-1.9.b.5c1e", "demo-1.10.c.5c1e"});
}
