#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "engine/model/parse.h"
#include "engine/plan/run_directory.h"
#include "engine/run/scheduler.h"
#include "engine/supervisor/supervisor.h"
#include "tests/support/catch.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_dir.h"

/// Is a reused result what a fresh run would give? Random small workflows are edited at random and
/// run in two worlds that see the same edits: one reuses what it can, the other starts anew each
/// time. What they publish must be equal, byte for byte. Programs print all that they can see.
///
///   DLFLOW_ORACLE_SEEDS=100000 build/tests/reuse_oracle_test     more than the usual 600
using namespace dlflow;
namespace fs = std::filesystem;

namespace {

/// Runs each job in a child process, one after the other, as the local back end would.
class OneByOne : public Backend {
 public:
  void check(const Plan&) const override {}
  void begin(const fs::path&) override {}
  bool has_room(const Resources&) const override { return waiting_.empty(); }
  void submit(const Submission& submission) override { waiting_.push_back(submission); }
  Recovery recover(const Submission&) override { return Recovery::NotStarted; }
  void stop(uint32_t, Stop) override {}

  std::vector<Update> wait(std::chrono::milliseconds, int) override {
    std::vector<Update> updates;
    if (waiting_.empty()) return updates;
    const Submission job = waiting_.front();
    waiting_.pop_front();
    const fs::path attempt = attempt_directory(job.job_directory, job.attempt);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(int(supervise(attempt, job.pass)));
    int status = 0;
    ::waitpid(child, &status, 0);
    for (JobEvent& event : attempt_events(job.job_directory, job.name, job.attempt)) {
      updates.push_back({job.job, std::move(event), true});
    }
    return updates;
  }

 private:
  std::deque<Submission> waiting_;
};

class Silent : public Observer {
 public:
  void began(const Plan&, const RunStatus&) override {}
  void event(const JobEvent&) override {}
  void tick(Time) override {}
  void stopping() override {}
  void ended(RunState, Time) override {}
};

/// A step of a random workflow.
struct RandomStep {
  std::string name;
  int constant = 0;
  std::string axis;  ///< of its matrix; empty: none. "a" is that of several steps
  bool repeats = false;
  std::vector<std::string> reads;  ///< steps whose output it reads, in this order
  std::vector<std::string> needs;  ///< steps that it only waits for
  std::string input;               ///< a file beside the workflow
  std::string output = "o.txt";    ///< empty: it declares none
  bool is_folder = false;
  bool says_names = false;
  bool reads_shared = false, writes_shared = false, reads_data = false, sees_param = false;
  int ranks = 1;
};

/// What both worlds are made of, but for the folder that each has.
struct State {
  std::map<std::string, int> params = {{"p", 1}, {"q", 1}};
  std::map<std::string, std::vector<int>> axes;
  std::map<std::string, std::string> files = {{"f0.txt", "zero"}, {"f1.txt", "one"}};
  std::string data = "data";
  std::vector<RandomStep> steps;
};

/// Random choices that are the same for a seed on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  int below(size_t bound) { return bound == 0 ? 0 : int(generator_() % bound); }
  bool once_in(int times) { return below(size_t(times)) == 0; }
  template <typename List>
  auto& one_of(List& list) {
    return *std::next(list.begin(), below(list.size()));
  }

 private:
  std::mt19937_64 generator_;
};

State random_state(Dice& dice) {
  State state;
  const int num_steps = 2 + dice.below(4);
  for (int number = 0; number < num_steps; ++number) {
    RandomStep step;
    step.name = "s" + std::to_string(number);
    step.constant = dice.below(2);
    if (dice.once_in(3)) step.axis = dice.once_in(2) ? "a" : "own" + std::to_string(number);
    if (!step.axis.empty()) state.axes[step.axis] = {1, 2};
    step.repeats = step.axis.empty() && dice.once_in(8);
    for (const RandomStep& earlier : state.steps) {
      if (!earlier.output.empty() && dice.once_in(2)) {
        step.reads.push_back(earlier.name);
      } else if (dice.once_in(4)) {
        step.needs.push_back(earlier.name);
        if (earlier.writes_shared) step.reads_shared = true;
      }
    }
    if (dice.once_in(2)) step.input = dice.once_in(2) ? "f0.txt" : "f1.txt";
    step.says_names = dice.once_in(4);
    step.reads_data = dice.once_in(4);
    step.sees_param = dice.once_in(2);
    step.is_folder = dice.once_in(4);
    // One step writes to a place outside of its outputs, and declares none.
    const bool is_first_writer = std::none_of(state.steps.begin(), state.steps.end(),
                                              [](const RandomStep& s) { return s.writes_shared; });
    if (is_first_writer && step.axis.empty() && !step.repeats && dice.once_in(3)) {
      step.writes_shared = true;
      step.output.clear();
    }
    state.steps.push_back(std::move(step));
  }
  return state;
}

/// One world: the workflow's folder, runs, and where users keep their stores.
class World {
 public:
  explicit World(bool reuses) : reuses_(reuses) {
    make_directories(path("shared"));
    make_directories(path("cache"));
    ::chmod(path("cache").c_str(), 02770);
    program_ = folder_.write("dlflow", "");
    for (const char* user : {"ann", "bob"}) {
      make_directories(path(user));
      stores_.emplace(user, std::make_unique<Store>(path(user)));
    }
  }

  fs::path path(const std::string& name) const { return folder_.path() / name; }

  void write_data(const std::string& content, bool keeps_time) {
    const fs::path file = path("data");
    const bool was_there = fs::exists(file);
    const auto time = was_there ? fs::last_write_time(file) : fs::file_time_type{};
    std::ofstream(file) << content;
    if (was_there && keeps_time) fs::last_write_time(file, time);
  }

  /// job -> name and content of each file that it published; what was reused is counted.
  std::map<std::string, std::string> run(const State& state, const std::string& user,
                                         const std::function<void()>& between) {
    for (const auto& [name, content] : state.files) {
      if (read_file_if_exists(path("w/" + name)) != content) folder_.write("w/" + name, content);
    }
    folder_.write("w/w.yaml", text(state, user));
    auto parsed = parse_workflow(path("w/w.yaml"));
    if (const auto* wrong = std::get_if<Diagnostics>(&parsed)) {
      FAIL(to_string(wrong->front()) + "\n" + text(state, user));
    }
    Profile profile;
    profile.runs = path(user + "-runs");
    profile.cache = path("cache");
    profile.launcher = {"/bin/sh", {"-c", "shift 2; exec \"$@\"", "launcher"}};
    PlanOptions options;
    Workflow workflow = std::get<Workflow>(std::move(parsed));
    if (!reuses_) {
      for (const Step& step : workflow.steps) options.force.push_back(step.name);
    }
    Store& store = *stores_.at(user);
    OneByOne backend;
    Silent observer;
    const Services services{store, backend, observer, clock_};
    Plan plan = make_plan(std::move(workflow), profile, options, store, store);
    create_run(plan, services, program_);
    between();
    const fs::path directory = plan.directory;
    const std::string name = plan.run;
    start_run(std::move(plan), services, {});
    clock_.advance(std::chrono::seconds(1));
    return published(store.status(name));
  }

  /// Files that some run of this world has published.
  std::vector<fs::path> published_files() const {
    std::vector<fs::path> files;
    for (const char* user : {"ann", "bob"}) {
      std::error_code none;
      for (const auto& entry :
           fs::recursive_directory_iterator(path(std::string(user) + "-runs"), none)) {
        const bool is_output = entry.path().string().find("/outputs/") != std::string::npos;
        if (is_output && entry.is_regular_file()) files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  size_t jobs = 0, reused = 0;

 private:
  std::map<std::string, std::string> published(const RunStatus& status) {
    std::map<std::string, std::string> all;
    for (const JobRow& job : status.jobs) {
      ++jobs;
      if (job.state == JobState::Cached || job.reason.starts_with("reused from")) ++reused;
      std::string& content = all[job.job];
      content = satisfies_dependents(job.state) ? "done\n" : job.reason;
      const fs::path outputs = fs::path(job.directory) / "outputs";
      std::error_code none;
      std::map<std::string, std::string> files;
      for (const auto& entry :
           fs::recursive_directory_iterator(fs::canonical(outputs, none), none)) {
        if (!entry.is_regular_file()) continue;
        files[entry.path().lexically_relative(fs::canonical(outputs))] = read_file(entry.path());
      }
      for (const auto& [name, text] : files) content += name + ":\n" + text;
    }
    return all;
  }

  /// A program that prints all that it sees.
  std::string script(const RandomStep& step, const std::string& user) const {
    std::ostringstream sh;
    sh << "{ echo constant " << step.constant << "\n";
    if (!step.input.empty()) sh << "echo " << step.input << "; cat " << step.input << "; echo\n";
    if (step.sees_param) sh << "echo p $DLFLOW_PARAM_P\n";
    if (step.ranks > 1) sh << "echo ranks $DLFLOW_RANKS\n";
    if (step.says_names) sh << "echo I am $DLFLOW_STEP $DLFLOW_JOB $DLFLOW_RANKS\n";
    if (!step.axis.empty()) {
      sh << "echo axis $" << environment_name("DLFLOW_MATRIX_", step.axis) << "\n";
    }
    if (step.repeats) sh << "echo seed $DLFLOW_SEED\n";
    if (step.reads_data) sh << "cat " << path("data").string() << "; echo\n";
    if (step.reads_shared) sh << "cat " << path("shared/" + user).string() << "\n";
    for (size_t i = 0; i < step.reads.size(); ++i) {
      sh << "echo " << step.reads[i] << "; case $IN" << i << " in *]) echo a list ;; esac\n"
         << "IFS='[],\"'; for f in $IN" << i << "; do [ -n \"$f\" ] || continue; echo ${f##*/}\n"
         << "if [ -d $f ]; then for g in $f/*; do echo ${g##*/}; cat $g; done; else cat $f; fi\n"
         << "done; unset IFS\n";
    }
    sh << "} > ";
    if (step.writes_shared) {
      sh << path("shared/" + user).string();
    } else if (step.is_folder) {
      sh << "../text; mkdir -p $DLFLOW_OUTPUTS/" << step.output << "; cp ../text $DLFLOW_OUTPUTS/"
         << step.output << "/a; cp ../text $DLFLOW_OUTPUTS/" << step.output << "/b";
    } else {
      sh << "$DLFLOW_OUTPUTS/" << step.output;
    }
    return sh.str();
  }

  std::string text(const State& state, const std::string& user) const {
    std::ostringstream yaml;
    yaml << "name: w\nparams: {p: " << state.params.at("p") << ", q: " << state.params.at("q")
         << "}\nsteps:\n";
    for (const RandomStep& step : state.steps) {
      yaml << "  " << step.name << ":\n    run: |\n";
      std::istringstream lines(script(step, user));
      for (std::string line; std::getline(lines, line);) yaml << "      " << line << "\n";
      if (!step.axis.empty()) {
        yaml << "    matrix: {" << step.axis << ": " << Json(state.axes.at(step.axis)).dump()
             << "}\n";
      }
      if (step.repeats) yaml << "    repeat: 2\n";
      if (!step.reads.empty()) yaml << "    env:\n";
      for (size_t i = 0; i < step.reads.size(); ++i) {
        yaml << "      IN" << i << ": ${{ steps." << step.reads[i] << ".outputs.o }}\n";
      }
      if (!step.needs.empty()) yaml << "    needs: " << Json(step.needs).dump() << "\n";
      Json inputs = Json::array();
      if (!step.input.empty()) inputs.push_back(step.input);
      if (step.reads_data) inputs.push_back({{"path", path("data").string()}});
      if (!inputs.empty()) yaml << "    inputs: " << inputs.dump() << "\n";
      if (!step.output.empty()) yaml << "    outputs: {o: " << step.output << "}\n";
      if (step.ranks > 1) yaml << "    resources: {ranks: " << step.ranks << "}\n";
    }
    return yaml.str();
  }

  bool reuses_;
  test::TempDir folder_;
  fs::path program_;
  std::map<std::string, std::unique_ptr<Store>> stores_;
  test::FakeClock clock_;
};

/// Changes something that people change between two runs. \param world  that reuses; what it has
/// published may be damaged, which the other one does not notice.
void edit(State& state, Dice& dice, World& world) {
  RandomStep& step = dice.one_of(state.steps);
  switch (dice.below(14)) {
    case 0:
      state.params["p"] = 1 + dice.below(2);
      break;
    case 1:
      state.params["q"] = 1 + dice.below(2);
      break;
    case 2:
      step.constant = dice.below(2);
      break;
    case 3:
      dice.one_of(state.files).second = "v" + std::to_string(dice.below(2));
      break;
    case 4:
      std::swap(state.files["f0.txt"], state.files["f1.txt"]);
      break;
    case 5:
      std::reverse(step.reads.begin(), step.reads.end());
      std::reverse(step.needs.begin(), step.needs.end());
      break;
    case 6:
      if (!step.output.empty()) step.output = step.output == "o.txt" ? "renamed.txt" : "o.txt";
      break;
    case 7:
      if (!step.axis.empty()) {
        const std::vector<std::vector<int>> choices = {{1, 2}, {2}, {2, 1}};
        state.axes[step.axis] = choices[size_t(dice.below(choices.size()))];
      }
      break;
    case 8:
      step.ranks = 1 + dice.below(3);
      break;
    case 9:
      step.says_names = !step.says_names;
      break;
    case 10:
      state.data = "d" + std::to_string(dice.below(2));
      break;
    default: {  // a purge, an edit in place, an edit with the old time
      const std::vector<fs::path> files = world.published_files();
      if (files.empty()) return;
      const fs::path file = files[size_t(dice.below(files.size()))];
      const auto time = fs::last_write_time(file);
      const int how = dice.below(4);
      if (how == 0) {
        fs::remove(file);
      } else if (how == 1) {
        std::ofstream(file, std::ios::app) << "appended";
      } else if (how == 2) {
        std::string content = read_file(file);
        if (!content.empty()) content.front() ^= 1;
        std::ofstream(file) << content;
        fs::last_write_time(file, time);
      } else {
        std::ofstream(file.parent_path() / "added") << "more";
      }
    }
  }
}

struct Count {
  size_t seeds = 0, jobs = 0, reused = 0;
};

/// Runs the workflow of one seed some times, with edits between the runs.
void try_seed(uint64_t seed, Count& count) {
  Dice dice(seed);
  State state = random_state(dice);
  World reusing(true);
  World fresh(false);
  for (int round = 0; round < 4; ++round) {
    const std::string user = dice.once_in(3) ? "bob" : "ann";
    const bool keeps_time = dice.once_in(2);
    for (World* world : {&reusing, &fresh}) world->write_data(state.data, keeps_time);
    const bool changes_late = dice.once_in(6);
    const auto late = [&](World& world) {
      return [&world, &state, changes_late] {
        if (changes_late) world.write_data(state.data + " late", true);
      };
    };
    const auto expected = fresh.run(state, user, late(fresh));
    const auto found = reusing.run(state, user, late(reusing));
    // What changes after the plan may be seen or not; the rounds that follow must not know of it.
    for (const auto& [job, content] : expected) {
      INFO("seed " << seed << ", round " << round << ", " << user << ", job " << job);
      if (!changes_late) REQUIRE(found.at(job) == content);
    }
    for (int edits = dice.below(3); edits >= 0; --edits) edit(state, dice, reusing);
  }
  ++count.seeds;
  count.jobs += reusing.jobs;
  count.reused += reusing.reused;
}

uint64_t num_seeds() {
  const char* const given = std::getenv("DLFLOW_ORACLE_SEEDS");
  return given == nullptr ? 600 : std::strtoull(given, nullptr, 10);
}

/// Every fourth seed, from `first` on.
void try_seeds(uint64_t first) {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);  // no disk is waited for
  Count count;
  for (uint64_t seed = first; seed < num_seeds(); seed += 4) try_seed(seed, count);
  std::printf("%zu seeds, %zu jobs, %zu of them reused\n", count.seeds, count.jobs, count.reused);
  CHECK(count.reused * 10 > count.jobs);  // who never reuses anything proves nothing
}

}  // namespace

TEST_CASE("what is reused is what a fresh run gives: first quarter of the seeds", "[oracle]") {
  try_seeds(0);
}
TEST_CASE("what is reused is what a fresh run gives: second quarter of the seeds", "[oracle]") {
  try_seeds(1);
}
TEST_CASE("what is reused is what a fresh run gives: third quarter of the seeds", "[oracle]") {
  try_seeds(2);
}
TEST_CASE("what is reused is what a fresh run gives: fourth quarter of the seeds", "[oracle]") {
  try_seeds(3);
}
