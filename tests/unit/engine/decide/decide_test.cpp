#include "engine/decide/decide.h"

#include <sstream>

#include "base/file.h"
#include "base/text.h"
#include "engine/decide/standing.h"
#include "tests/support/catch.h"
#include "tests/support/parsed.h"
#include "tests/unit/engine/plan/plan_of.h"

// The table below "## Decisions" in docs/contributor/reference.md has the cases: each row is one
// job `c` with the parents `p`, and the decision on it.

using namespace dlflow;
using namespace dlflow::test;

namespace {

/// One row of the table.
struct Case {
  std::vector<std::string> job, parents, run;  ///< a state or two, and then words
  std::string decision, on_node;
};

std::vector<std::string> words_of(const std::string& cell) {
  std::vector<std::string> words;
  for (const std::string& word : split(cell, ',')) words.emplace_back(trim(word));
  return words;
}

std::vector<Case> documented_cases() {
  std::istringstream document(read_file(DLFLOW_SOURCE_DIR "/docs/contributor/reference.md"));
  std::vector<Case> cases;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) inside = line == "## Decisions";
    if (!inside || !line.starts_with("| ") || line.starts_with("| job ")) continue;
    const auto cells = split(line, '|');
    cases.push_back({words_of(cells.at(1)), words_of(cells.at(2)), words_of(cells.at(3)),
                     std::string(trim(cells.at(4))), std::string(trim(cells.at(5)))});
  }
  return cases;
}

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string workflow_of(const Case& row) {
  const bool two = row.parents[0].find(" and ") != std::string::npos;
  std::string text = "  p: {run: ./p, outputs: {o: o}";
  if (two) text += ", matrix: {n: [0, 1]}";
  if (has(row.parents, "may fail")) text += ", allow_failure: true";
  text += "}\n  c: {needs: [p], run: [./c";
  if (has(row.parents, "used")) {
    text += two ? R"(, "${{ join(steps.p.outputs.o) }}")" : R"(, "${{ steps.p.outputs.o }}")";
  }
  text += "]";
  if (has(row.job, "always")) text += R"(, if: "${{ always() }}")";
  if (has(row.job, "may fail")) text += ", allow_failure: true";
  if (has(row.job, "tries left"))
    text += ", retry: {attempts: 2, on: [failure, timeout, node-failure]}";
  if (has(row.job, "of a sweep")) text += ", matrix: {m: [0]}";
  if (has(row.job, "packed")) text += ", matrix: {m: [0, 1], pack: 2}";
  if (has(row.job, "of a list")) text += R"(, matrix: {m: "${{ steps.p.outputs.o }}"})";
  text += "}\n";
  if (has(row.job, "before always"))
    text += R"(  z: {run: ./z, needs: [c], if: "${{ always() }}"})"
            "\n";
  return text;
}

std::vector<JobState> parent_states(const Case& row) {
  const size_t second = row.parents[0].find(" and ");
  std::vector<JobState> states = {job_state(row.parents[0].substr(0, second))};
  if (second != std::string::npos) states.push_back(job_state(row.parents[0].substr(second + 5)));
  return states;
}

std::string in_words(const Decision& decision) {
  constexpr const char* kWords[] = {"start", "reuse",     "look up", "skip",
                                    "block", "try again", "give up", "withdraw"};
  return kWords[int(decision.kind)] + std::string(decision.ends_run ? ", the run fails" : "");
}

/// Returns the decision on a job that the batch system has.
std::string in_queue(const Plan& plan, const Jobs& states, uint32_t job, bool never_starts) {
  if (is_freed(states, job)) return "queue again";
  const InQueue kept = keep_waiting(plan, states, job, never_starts);
  if (kept == InQueue::Stays) return "wait";
  return kept == InQueue::Repointed ? "repoint" : "queue again, repoint";
}

/// Returns the decision on a job that the batch system has, after its parents were planned again.
std::string after_parents(const Plan& plan, const Jobs& states, uint32_t job, const Case& row) {
  PlannedAgain again;
  for (uint32_t parent = 0; parent < job; ++parent) again.jobs.insert(parent);
  if (has(row.run, "noted")) again.noted = again.jobs;
  const auto has_saved = [&] { return has(row.run, "saved"); };
  constexpr const char* kWords[] = {"wait", "repoint", "replace", "too early"};
  return kWords[int(follow_parents(plan, states, job, again, has(row.run, "begun"), has_saved))];
}

/// Returns the answer of the supervisor of `c` to the same parents.
std::string on_node(const Plan& plan, uint32_t job, const std::vector<JobState>& parents,
                    bool is_used) {
  const Step& step = step_of(plan, job);
  UsedParents used;
  for (const JobState state : parents) {
    ParentRef parent;
    parent.may_fail = plan.workflow.steps[0].allow_failure;
    const auto left = satisfies_dependents(state) ? Left::Result
                                                  : left_without_result(parent, state, step.always);
    if (!left) return "refuses";
    const auto& elements = *plan.steps[0].elements;
    if (is_used) used.add("p", elements.front(), *left);
  }
  const Inputs inputs = used.judge(Json::object(), step.always);
  return inputs.kind == Inputs::Kind::Enough ? "runs"
         : inputs.kind == Inputs::Kind::Skip ? "skips"
                                             : "refuses";
}

}  // namespace

TEST_CASE("each decision is that of the documented table", "[decide]") {
  const std::vector<Case> cases = documented_cases();
  REQUIRE(cases.size() > 30);
  for (const Case& row : cases) {
    INFO(row.job[0] << " after " << row.parents[0] << ": " << workflow_of(row));
    Plan plan = plan_of(parsed("name: w\nsteps:\n" + workflow_of(row)),
                        {.until = {},
                         .force = has(row.job, "forced") ? std::vector<std::string>{"c"}
                                                         : std::vector<std::string>{},
                         .set = {}});
    const std::vector<JobState> parents = parent_states(row);
    const auto c = uint32_t(parents.size());
    std::vector<JobProgress> known(plan.jobs.size());
    for (uint32_t job = 0; job < c; ++job)
      known[job] = {.state = parents[job], .attempt = 1, .tries = 1};
    known[c] = {.state = job_state(row.job[0]), .attempt = 1, .tries = 1};
    if (has(row.job, "reused")) plan.reused[c] = {};
    const Jobs states(plan, known);
    if (has(row.run, "in the queue")) {
      CHECK((has(row.run, "parents again")
                 ? after_parents(plan, states, c, row)
                 : in_queue(plan, states, c, has(row.run, "never starts"))) == row.decision);
      continue;
    }
    Capabilities now;
    now.failed = has(row.run, "failed");
    now.keep_going = has(row.run, "keeps going");
    now.stopping = has(row.run, "stopping");
    now.lists_pending = has(row.run, "lists pending");
    now.submitting_is_known = has(row.run, "looked up");
    Changes changed;
    for (uint32_t job = 0; job < plan.jobs.size(); ++job) changed[job] = "exit 1";
    const auto decisions = has(row.run, "idle") ? decide_when_idle(plan, states, now)
                                                : decide(plan, states, changed, now);
    std::string found = "wait";
    for (const Decision& decision : decisions) {
      if (decision.job != c) continue;
      CHECK(found == "wait");
      found = in_words(decision);
      if (decision.kind == Decision::Kind::TryAgain) {
        CHECK(decision.reason == "try 2 of 2 follows; the previous one: exit 1");
        CHECK(decision.delay == std::chrono::milliseconds(500));
      }
    }
    CHECK(found == row.decision);
    if (row.on_node != "")
      CHECK(on_node(plan, c, parents, has(row.parents, "used")) == row.on_node);
  }
}

TEST_CASE("a batch system starts the jobs that the executor does not", "[decide]") {
  const Plan plan = plan_of(parsed("name: w\nsteps:\n  a: {run: ./a}\n  b: {run: ./b}\n"));
  const Jobs states(plan, std::vector<JobProgress>(2));
  const std::set<uint32_t> mine = {1};
  const auto decisions = decide(plan, states, {{0, ""}, {1, ""}}, {.starts = &mine});
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].job == 1);
}

TEST_CASE("a list is taken from each step that left one, or only where a job awaits it",
          "[decide]") {
  const Plan plan = plan_of(parsed(
      R"(name: w
steps:
  a: {run: ./a, outputs: {o: o}}
  b: {run: ./b, matrix: {m: "${{ steps.a.outputs.o }}"}}
)"));
  using Sources = std::vector<uint32_t>;
  const Jobs planned(plan, {{.state = JobState::Cached}, {}});
  CHECK(list_sources(plan, planned, true) == Sources{0});
  const Jobs ended(plan, {{.state = JobState::Cached}, {.state = JobState::Blocked}});
  CHECK(list_sources(plan, ended, true).empty());
  CHECK(list_sources(plan, ended, false) == Sources{0});
  CHECK(list_sources(plan, Jobs(plan, std::vector<JobProgress>(2)), false).empty());
}

TEST_CASE("a job waits for the end of one more parent", "[decide]") {
  const Plan plan = plan_of(parsed(
      "name: w\nsteps:\n  a: {run: ./a, matrix: {n: [0, 1, 2]}}\n  b: {run: ./b, needs: [a]}\n"));
  Jobs states(plan, std::vector<JobProgress>(4));
  for (uint32_t job = 0; job < 3; ++job) {
    JobEvent event;
    event.state = JobState::Cached;
    REQUIRE(states.update(job, event));
    CHECK(decide(plan, states, {{job, ""}}, {}).size() == (job == 2 ? 1 : 0));
  }
}

TEST_CASE(
    "a failure keeps jobs from starting although another job's end frees them at the same time",
    "[decide]") {
  const Plan plan = plan_of(
      parsed("name: w\nsteps:\n  a: {run: ./a}\n  b: {run: ./b}\n  c: {run: ./c, needs: [b]}\n"));
  const Jobs states(plan, {{.state = JobState::Failed, .attempt = 1, .tries = 1},
                           {.state = JobState::Succeeded, .attempt = 1, .tries = 1},
                           {}});
  const Changes changed = {{0, "exit 1"}, {1, ""}};
  const auto decisions = decide(plan, states, changed, {});
  REQUIRE(decisions.size() == 1);
  CHECK(decisions[0].kind == Decision::Kind::GiveUp);
  CHECK(decide(plan, states, changed, {.keep_going = true}).size() == 2);
}
