// dlflow-bench: all-reduce on the ranks that mpirun or srun started, compared with MPI_Allreduce
// and gloo in the same run, with numbers of the type in --type; "-" if one of them cannot add it.
// Columns as in nccl-tests: algbw is bytes / time, busbw is algbw * 2(P-1)/P, the traffic of each
// rank's link.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <thread>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/gloo_peer.h"
#include "runtime/collectives/allreduce.h"
#include "runtime/collectives/rules.h"
#include "runtime/collectives/timing.h"
#include "runtime/comm/mpi_communicator.h"

namespace dlflow::bench {
namespace {

using namespace runtime;

struct Options {
  std::string smallest = "4", largest = "64MiB";
  std::string type = "fp32";
  std::string rules;       // empty: rules_file, if any
  std::string rules_file;  // from `dlflow-train --tune`
  double seconds = 0.3;    // per size and contender
  bool gloo = true;
  std::filesystem::path gloo_python = "/usr/bin/python3";
  std::filesystem::path gloo_program;
};

RuleSet rules_of(const Communicator& comm, const Options& options) {
  if (!options.rules.empty()) return parse_rules(options.rules, "--rules");
  if (options.rules_file.empty()) return {};
  return rules_for_shape(read_file(options.rules_file), topology_of(comm).text(),
                         options.rules_file);
}

DataType type_of(const Options& options) {
  std::vector<std::string> names;
  for (const DataType type : kDataTypes) {
    if (name(type) == options.type) return type;
    names.emplace_back(name(type));
  }
  throw Error(Errc::InvalidInput, "--type: '" + options.type + "' is no type; there are " +
                                      join(names, ", ") + did_you_mean(options.type, names));
}

/// Only for types that can_sum().
MPI_Datatype mpi_type(DataType type) {
  if (type == DataType::Float32) return MPI_FLOAT;
  return type == DataType::Int32 ? MPI_INT32_T : MPI_INT64_T;
}

/// Prints "-" if there is no measurement.
void print_number(int width, int digits, double number) {
  if (std::isnan(number)) {
    std::printf("%*s", width, "-");
  } else {
    std::printf("%*.*f", width, digits, number);
  }
}

class Bench {
 public:
  Bench(Communicator& comm, const Options& options)
      : comm_(comm),
        options_(options),
        type_(type_of(options)),
        largest_(parse_size(options.largest)),
        rules_(rules_of(comm, options)),
        plan_(comm, {.type = type_, .rules = rules_}),
        allreduce_(comm, largest_ / size_of(type_), {.type = type_, .rules = rules_}),
        peer_(largest_) {
    if (options.gloo) gloo_.emplace(comm, options.gloo_python, options.gloo_program, type_);
  }

  void run() {
    print_head();
    const size_t element = size_of(type_);
    for (size_t bytes = std::max<size_t>(parse_size(options_.smallest), element); bytes <= largest_;
         bytes *= 4) {
      measure(bytes / element);
    }
  }

 private:
  bool has_gloo() const { return gloo_ && gloo_->missing().empty(); }

  void measure(size_t count) {
    std::vector<Contender> contenders;
    if (comm_.can_sum(type_)) {
      contenders.push_back({"MPI_Allreduce", {peer_.data(), count, type_}, [&] {
                              MPI_Allreduce(MPI_IN_PLACE, peer_.data(), int(count), mpi_type(type_),
                                            MPI_SUM, MPI_COMM_WORLD);
                            }});
    }
    contenders.push_back({"dlflow", allreduce_.numbers().subrange(0, count), [&] {
                            allreduce_.start(0, count);
                            allreduce_.finish();
                          }});
    take_turns(comm_, contenders, options_.seconds);
    const double ours = contenders.back().median();
    const double mpi = contenders.size() > 1 ? contenders.front().median() : NAN;
    const int calls = int(contenders.back().seconds.size());
    const double gloo = has_gloo() ? gloo_->seconds(count, std::min(calls, 100)) : NAN;
    if (comm_.rank() == 0) print_row(count, mpi, gloo, ours);
  }

  void print_head() const {
    if (comm_.rank() != 0) return;
    std::printf("# %d ranks, nodes x ranks %s, %u cores here; median of calls in turn\n",
                comm_.size(), plan_.topology().text().c_str(), std::thread::hardware_concurrency());
    std::printf("# rules: %s\n",
                rules_.allreduce.empty() ? "by topology" : to_text(rules_).c_str());
    if (gloo_ && !has_gloo()) std::printf("# gloo skipped: %s\n", gloo_->missing().c_str());
    std::printf("#%28s  %-25s  %-25s  %-25s   ours is\n", "", "MPI_Allreduce", "gloo", "dlflow");
    std::printf("#%9s  %10s  %6s", "size", "count", "type");
    for (int i = 0; i < 3; ++i) std::printf("  %9s %7s %7s", "time", "algbw", "busbw");
    std::printf("   x MPI  x gloo\n#%9s  %10s  %6s", "B", "elements", "");
    for (int i = 0; i < 3; ++i) std::printf("  %9s %7s %7s", "us", "GB/s", "GB/s");
    std::printf("\n");
  }

  void print_row(size_t count, double mpi, double gloo, double ours) const {
    const size_t bytes = count * size_of(type_);
    std::printf("%10zu  %10zu  %6s", bytes, count, options_.type.c_str());
    for (const double seconds : {mpi, gloo, ours}) {
      const double bandwidth = double(bytes) / seconds / 1e9;
      print_number(11, 1, seconds * 1e6);
      print_number(8, 2, bandwidth);
      print_number(8, 2, bandwidth * 2 * (comm_.size() - 1) / comm_.size());
    }
    print_number(8, 2, mpi / ours);
    print_number(8, 2, gloo / ours);
    std::printf("  %s\n", way(bytes).c_str());
    std::fflush(stdout);
  }

  std::string way(size_t bytes) const {
    const Algorithm algorithm = plan_.over_all(bytes);
    std::string text(name(algorithm));
    if (algorithm != Algorithm::Hierarchical) return text;
    const size_t slice = bytes / size_t(plan_.topology().smallest_node());
    return text + "+" + std::string(name(plan_.between_nodes(slice)));
  }

  Communicator& comm_;
  const Options& options_;
  DataType type_;
  size_t largest_;
  RuleSet rules_;
  AllreducePlan plan_;
  Allreduce allreduce_;
  std::vector<std::byte> peer_;
  std::optional<GlooPeer> gloo_;
};

}  // namespace
}  // namespace dlflow::bench

int main(int argc, char** argv) {
  using namespace dlflow;
  const runtime::MpiEnvironment mpi(argc, argv);
  bench::Options options;
  options.gloo_program = DLFLOW_GLOO_PEER;
  CLI::App app("All-reduce beside MPI_Allreduce and gloo: mpirun -np 2 dlflow-bench");
  app.add_option("--from", options.smallest, "the smallest sum")->capture_default_str();
  app.add_option("--to", options.largest, "the largest; sizes are 4 times each other")
      ->capture_default_str();
  app.add_option("--type", options.type, "fp32, fp16, bf16, int32 or int64")->capture_default_str();
  app.add_option("--rules", options.rules, "allreduce=ring:0-max");
  app.add_option("--rules-file", options.rules_file, "what dlflow-train --tune wrote");
  app.add_option("--seconds", options.seconds, "per size and contender")->capture_default_str();
  app.add_option("--gloo-python", options.gloo_python, "a Python that has PyTorch")
      ->capture_default_str();
  app.add_flag("!--no-gloo", options.gloo, "leave gloo out");
  CLI11_PARSE(app, argc, argv);
  try {
    runtime::MpiCommunicator comm(std::chrono::seconds(60));
    bench::Bench(comm, options).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", mpi.rank(), error.what());
    mpi.abort(1);
  }
  return 0;
}
