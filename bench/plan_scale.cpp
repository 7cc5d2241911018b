// plan_scale JOBS: parses and plans two steps, each with a matrix of JOBS / 2 elements, the second
// dependent on the first element by element; prints seconds and peak memory. See plan_scale.sh.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <variant>

#include "engine/model/parse.h"
#include "engine/plan/plan.h"

namespace {

std::string axis(const char* name, int size) {
  std::string text = std::string(name) + ": [0";
  for (int i = 1; i < size; ++i) text += ", " + std::to_string(i);
  return text + "]";
}

std::string two_steps(int num_jobs) {
  constexpr int kWidth = 50;
  const std::string matrix =
      "    matrix: {" + axis("seed", kWidth) + ", " + axis("lr", num_jobs / 2 / kWidth) + "}\n";
  return "name: scale\nsteps:\n  first:\n    run: [./first, \"${{ matrix.seed }}\"]\n" + matrix +
         "    outputs: {model: model.bin}\n  second:\n    needs: [first]\n" + matrix +
         "    run: [./second, \"${{ steps.first.outputs.model }}\", \"${{ matrix.lr }}\"]\n";
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace dlflow;
  const int num_jobs = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const std::string text = two_steps(num_jobs);

  const auto start = std::chrono::steady_clock::now();
  auto parsed = parse_workflow_text(text, "scale.yaml");
  if (const auto* mistakes = std::get_if<Diagnostics>(&parsed)) {
    std::fprintf(stderr, "%s\n", to_string(mistakes->front()).c_str());
    return 1;
  }
  const double parse_s = seconds_since(start);
  NothingKnown known;
  FreshFileHashes hashes;
  const Plan plan = make_plan(std::get<Workflow>(std::move(parsed)), Profile(), {}, known, hashes);
  const double total_s = seconds_since(start);

  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("%7zu jobs: %6.3f s (parse %.3f s, plan %.3f s), peak %ld MB\n", plan.jobs.size(),
              total_s, parse_s, total_s - parse_s, usage.ru_maxrss / 1000);
}
