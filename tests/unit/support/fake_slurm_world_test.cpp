#include "tests/support/catch.h"
#include "tests/support/fake_slurm/schedule.h"
#include "tests/support/fake_slurm/world.h"
#include "tests/support/fake_slurm/world_json.h"

using namespace dlflow::fake_slurm;

namespace {

/// A cluster of two nodes with four cores each, and the actions of tests.
struct TestWorld {
  World world = new_world();

  JobId submit(const std::string& dependency = "", const std::string& array = "", int minutes = 0) {
    Request request;
    request.name = "job";
    request.dependency = dependency;
    request.array = array;
    request.minutes = minutes;
    return submit(request);
  }
  JobId submit(Request request) {
    const JobId id = dlflow::fake_slurm::submit(world, std::move(request));
    schedule(world);
    return id;
  }
  void end(JobId job, State state, int index = -1) {
    dlflow::fake_slurm::end(world, find_task(world, job, index), state, 0, 0, false);
    schedule(world);
  }
  /// "RUNNING", or the reason why the job is pending.
  std::string state(JobId job, int index = -1) {
    const Task& task = *find_task(world, job, index).task;
    return task.state == State::Pending ? task.reason : name(task.state);
  }
};

std::string refusal(TestWorld& test, const Request& request) {
  try {
    test.submit(request);
  } catch (const Refused& refused) {
    return refused.text;
  }
  return "";
}

}  // namespace

TEST_CASE("each kind of dependency waits for the matching end of its parent", "[fake_slurm]") {
  const State end = GENERATE(State::Completed, State::Failed, State::Timeout, State::Cancelled);
  TestWorld test;
  const JobId parent = test.submit();
  const std::string id = std::to_string(parent);
  const JobId on_ok = test.submit("afterok:" + id);
  const JobId on_any = test.submit("afterany:" + id);
  CHECK(test.state(on_ok) == "Dependency");

  test.end(parent, end);

  CHECK(test.state(on_ok) == (end == State::Completed ? "RUNNING" : "DependencyNeverSatisfied"));
  CHECK(test.state(on_any) == "RUNNING");
}

TEST_CASE("the children of a job that never runs wait for ever", "[fake_slurm]") {
  TestWorld test;
  const JobId parent = test.submit();
  const JobId child = test.submit("afterok:" + std::to_string(parent));
  const JobId grandchild = test.submit("afterok:" + std::to_string(child));
  test.end(parent, State::Failed);
  advance(test.world, 100'000);
  CHECK(test.state(child) == "DependencyNeverSatisfied");
  CHECK(test.state(grandchild) == "Dependency");
}

TEST_CASE("a child with --kill-on-invalid-dep is cancelled when its parent fails", "[fake_slurm]") {
  TestWorld test;
  const JobId parent = test.submit();
  Request request;
  request.dependency = "afterok:" + std::to_string(parent);
  request.kill_on_invalid_dependency = true;
  const JobId child = test.submit(request);
  test.end(parent, State::Failed);
  CHECK(test.state(child) == "CANCELLED");
}

TEST_CASE("a dependency on a forgotten or unknown parent is satisfied", "[fake_slurm]") {
  TestWorld test;
  const JobId parent = test.submit();
  const std::string on_parent = "afterok:" + std::to_string(parent);
  const JobId early = test.submit(on_parent);
  test.end(parent, State::Failed);
  purge(test.world);
  schedule(test.world);
  CHECK(test.state(early) == "DependencyNeverSatisfied");  // the dependency failed earlier
  CHECK(test.state(test.submit(on_parent)) == "RUNNING");
  CHECK(test.state(test.submit("afterok:999")) == "RUNNING");
}

TEST_CASE("ended jobs leave memory after MinJobAge", "[fake_slurm]") {
  TestWorld test;
  const JobId job = test.submit();
  test.end(job, State::Completed);
  advance(test.world, 299);
  CHECK(find(test.world, "1").size() == 1);
  advance(test.world, 1);
  CHECK(find(test.world, "1").empty());
}

TEST_CASE("a job waits for all jobs that it names", "[fake_slurm]") {
  TestWorld test;
  test.submit();
  test.submit();
  const JobId all = test.submit("afterok:1:2");
  const JobId both_kinds = test.submit("afterok:1,afterany:2");
  test.end(2, State::Failed);
  CHECK(test.state(all) == "DependencyNeverSatisfied");
  CHECK(test.state(both_kinds) == "Dependency");
  test.end(1, State::Completed);
  CHECK(test.state(both_kinds) == "RUNNING");
}

TEST_CASE("an array can be waited for as a whole, by task, or task by task", "[fake_slurm]") {
  TestWorld test;
  const JobId array = test.submit("", "1-3");
  const std::string id = std::to_string(array);
  const JobId on_all = test.submit("afterok:" + id);
  const JobId on_two = test.submit("afterok:" + id + "_2");
  const JobId each = test.submit("aftercorr:" + id, "1-3");

  test.end(array, State::Completed, 2);
  CHECK(test.state(on_two) == "RUNNING");
  CHECK(test.state(on_all) == "Dependency");
  CHECK(test.state(each, 2) == "RUNNING");
  CHECK(test.state(each, 1) == "Dependency");

  test.end(array, State::Failed, 1);
  CHECK(test.state(each, 1) == "DependencyNeverSatisfied");
  CHECK(test.state(on_all) == "Dependency");  // as in SLURM: until the whole array has ended
  test.end(array, State::Completed, 3);
  CHECK(test.state(on_all) == "DependencyNeverSatisfied");
}

TEST_CASE("jobs start in order while there are cores", "[fake_slurm]") {
  TestWorld test;
  Request wide;
  wide.nodes = 2;
  wide.tasks = 2;
  wide.cpus_per_task = 3;
  const JobId first = test.submit(wide);
  const JobId second = test.submit(wide);
  const JobId small = test.submit();
  CHECK(find_task(test.world, first, -1).task->shares.size() == 2);
  CHECK(test.state(second) == "Resources");
  CHECK(test.state(small) == "Priority");
  test.end(first, State::Completed);
  CHECK(test.state(second) == "RUNNING");
  CHECK(test.state(small) == "RUNNING");
}

TEST_CASE("a job that could never fit is refused", "[fake_slurm]") {
  TestWorld test;
  const std::string unavailable = "Requested node configuration is not available";
  Request request;
  request.tasks = 8;
  CHECK(refusal(test, request).empty());
  request.tasks = 9;
  CHECK(refusal(test, request) == unavailable);
  request.tasks = 2;
  request.tasks_per_node = 1;
  CHECK(refusal(test, request).empty());
  request.nodes = 3;
  CHECK(refusal(test, request) == unavailable);
}

TEST_CASE("jobs beyond a limit are refused in SLURM's words", "[fake_slurm]") {
  TestWorld test;
  Request request;
  request.partition = "nowhere";
  CHECK(refusal(test, request) == "Invalid partition name specified");
  request.partition = "short";
  request.minutes = 6;
  CHECK(refusal(test, request) ==
        "Requested time limit is invalid (missing or exceeds some limit)");
  request = {};
  request.array = "0-1001";
  CHECK(refusal(test, request) == "Invalid job array specification");
  request.array = "0-1000";
  CHECK(refusal(test, request).empty());
  request = {};
  test.world.config.accounts = "project";
  request.account = "other";
  CHECK(refusal(test, request) == "Invalid account or account/partition combination specified");
}

TEST_CASE("an array runs at most as many tasks at once as its limit", "[fake_slurm]") {
  TestWorld test;
  const JobId array = test.submit("", "0-3%2");
  CHECK(test.state(array, 1) == "RUNNING");
  CHECK(test.state(array, 2) == "JobArrayTaskLimit");
  test.end(array, State::Completed, 0);
  CHECK(test.state(array, 2) == "RUNNING");
}

TEST_CASE("a task gets a raw id when it starts, and the last task that of its array",
          "[fake_slurm]") {
  TestWorld test;
  test.world.next_id = 812;
  const JobId array = test.submit("", "0-2%1");
  std::vector<JobId> raw_ids;
  for (int index = 0; index < 3; ++index) {
    raw_ids.push_back(find_task(test.world, array, index).task->raw_id);
    test.end(array, State::Completed, index);
  }
  CHECK(raw_ids == std::vector<JobId>{813, 814, 812});
  CHECK(find(test.world, "814").front().task->index == 1);
  CHECK(find(test.world, "812").size() == 3);
}

TEST_CASE("a job ends at its time limit, after its signal", "[fake_slurm]") {
  TestWorld test;
  Request request;
  request.minutes = 2;
  request.signal = 10;
  request.signal_lead = 50;
  const JobId job = test.submit(request);
  advance(test.world, 70);
  CHECK(find_task(test.world, job, -1).task->signalled);
  advance(test.world, 49);
  CHECK(test.state(job) == "RUNNING");
  advance(test.world, 1);
  CHECK(test.state(job) == "TIMEOUT");
}

TEST_CASE("a requeued job keeps its id and its dependents, and waits", "[fake_slurm]") {
  TestWorld test;
  const JobId job = test.submit();
  const JobId child = test.submit("afterok:" + std::to_string(job));
  requeue(test.world, find_task(test.world, job, -1));
  schedule(test.world);
  CHECK(test.state(job) == "BeginTime");
  CHECK(test.state(child) == "Dependency");
  advance(test.world, 121);
  CHECK(test.state(job) == "RUNNING");
  CHECK(find_task(test.world, job, -1).task->restarts == 1);
  test.end(job, State::Completed);
  CHECK(test.state(child) == "RUNNING");
}

TEST_CASE("a world is unchanged after it was written and read", "[fake_slurm]") {
  TestWorld test;
  test.submit("", "1-3%1");
  test.submit("afterok:1");
  test.end(1, State::Failed, 1);
  test.world.late.push_back({{}, 5});
  const dlflow::Json json = test.world;
  CHECK(dlflow::Json(json.get<World>()) == json);
}
