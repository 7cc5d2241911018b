#include "engine/cli/trusted_results.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/text.h"
#include "engine/cli/images.h"
#include "engine/model/parse.h"
#include "engine/share/bundle_reader.h"
#include "engine/share/packed_results.h"

namespace dlflow {
namespace {

namespace fs = std::filesystem;

/// The folder of the unpacked bundle of a run that `workflow` is of; nothing if it is of none.
std::optional<fs::path> bundle_with_run(const Workflow& workflow) {
  auto folder = unpacked_bundle(workflow.file);
  if (!folder || read_manifest(*folder).run.empty()) return std::nullopt;
  return folder;
}

/// What people call the bundle.
std::string name_of(const WorkflowArgument& argument, const fs::path& folder) {
  const bool is_file = is_bundle(argument.file);
  return escaped((is_file ? fs::path(argument.file) : folder).filename().string());
}

PackedResults read_results(Session& session, const WorkflowArgument& argument,
                           const Workflow& workflow, const Profile& profile) {
  const auto folder = bundle_with_run(workflow);
  if (!folder) {
    throw Error(Errc::InvalidInput, argument.file +
                                        " holds no results; --trust-results is for what `dlflow "
                                        "pack --from-run RUN` makes");
  }
  // As it was packed: what --set says here is of the run to come.
  const Manifest manifest = read_manifest(*folder);
  auto parsed = parse_workflow(*folder / manifest.workflow, settings(manifest));
  if (const auto* diagnostics = std::get_if<Diagnostics>(&parsed)) {
    throw Error(Errc::Corrupt, to_string(diagnostics->front()));
  }
  auto packed = std::get<Workflow>(std::move(parsed));
  pin_images(packed, profile, session.store());
  NothingKnown nothing;
  return read_packed_results(*folder,
                             make_plan(std::move(packed), profile, {}, nothing, session.store()),
                             session.store());
}

/// The results of the store, and what a bundle adds.
class StoreAndBundle : public KnownResults {
 public:
  explicit StoreAndBundle(Store& store, std::map<std::string, KnownResult> foreseen = {})
      : store_(store), foreseen_(std::move(foreseen)) {}

  /// Adds the results of the bundle, behind those of the store.
  void add(const PackedResults& results, const std::string& bundle) {
    for (const auto& [job, result] : results.by_job) {
      KnownResult& known = packed_[result.known.fingerprint];
      known = result.known;
      known.bundle = bundle;
    }
  }

  std::optional<KnownResult> find(const std::string& fingerprint) override {
    if (auto known = store_.find(fingerprint)) return known;
    return found_in(packed_, fingerprint);
  }

  bool is_undisturbed(const KnownResult& result, std::span<const std::string> parents) override {
    return packed_.contains(result.fingerprint) || store_.is_undisturbed(result, parents);
  }

  std::optional<KnownResult> foresee(const std::string& fingerprint) override {
    return found_in(foreseen_, fingerprint);
  }

 private:
  using Results = std::map<std::string, KnownResult>;
  static std::optional<KnownResult> found_in(const Results& all, const std::string& fingerprint) {
    const auto found = all.find(fingerprint);
    return found == all.end() ? std::nullopt : std::optional(found->second);
  }

  Store& store_;
  Results foreseen_;
  Results packed_;
};

void tell_of_refused(const PackedResults& results) {
  constexpr size_t kTold = 5;
  for (size_t i = 0; i < std::min(kTold, results.refused.size()); ++i) {
    std::fprintf(stderr, "not reused: %s\n", escaped(results.refused[i]).c_str());
  }
  if (results.refused.size() > kTold) {
    std::fprintf(stderr, "not reused: %zu more\n", results.refused.size() - kTold);
  }
}

void tell_of_results(Session& session, const Workflow& workflow) {
  const auto folder = bundle_with_run(workflow);
  if (!folder || session.quiet || session.json) return;
  const std::string run = read_manifest(*folder).run;
  if (session.store().has_run(run)) return;
  std::printf(
      "The bundle holds results of %s; --trust-results reuses them, if you trust who made it.\n",
      escaped(run).c_str());
}

}  // namespace

std::unique_ptr<KnownResults> take_trusted_results(Session& session,
                                                   const WorkflowArgument& argument,
                                                   const PlanArguments& arguments,
                                                   const Workflow& workflow,
                                                   const Profile& profile) {
  if (!arguments.trust_results) {
    tell_of_results(session, workflow);
    return std::make_unique<StoreAndBundle>(session.store());
  }
  PackedResults results = read_results(session, argument, workflow, profile);
  const std::string bundle = name_of(argument, *unpacked_bundle(workflow.file));
  const std::string run = take_results(results, profile.runs, bundle, session.store());
  auto known = std::make_unique<StoreAndBundle>(session.store(), std::move(results.foreseen));
  if (!session.quiet) tell_of_refused(results);
  if (session.quiet || session.json) return known;
  if (run.empty()) {
    std::printf("No result in %s can be reused here.\n", bundle.c_str());
    return known;
  }
  const size_t number = results.by_job.size();
  std::printf(
      "%zu result%s of %s (dlflow %s) %s trusted, and kept as the run %s.\n"
      "Nothing proves who made %s; `dlflow rm %s` takes the results away again.\n",
      number, number == 1 ? "" : "s", escaped(results.run).c_str(), escaped(results.dlflow).c_str(),
      number == 1 ? "is" : "are", run.c_str(), bundle.c_str(), run.c_str());
  return known;
}

std::unique_ptr<KnownResults> preview_trusted_results(Session& session,
                                                      const WorkflowArgument& argument,
                                                      const PlanArguments& arguments,
                                                      const Workflow& workflow,
                                                      const Profile& profile) {
  if (!arguments.trust_results) return std::make_unique<StoreAndBundle>(session.store());
  PackedResults results = read_results(session, argument, workflow, profile);
  if (!session.quiet) tell_of_refused(results);
  auto known = std::make_unique<StoreAndBundle>(session.store(), std::move(results.foreseen));
  known->add(results, name_of(argument, *unpacked_bundle(workflow.file)));
  return known;
}

}  // namespace dlflow
