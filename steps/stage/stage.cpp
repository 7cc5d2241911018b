#include "steps/stage/stage.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "steps/environment/step_environment.h"
#include "steps/stage/progress.h"
#include "steps/stage/staged_source.h"
#include "steps/stage/stop_signal.h"

namespace dlflow::steps {
namespace {

namespace fs = std::filesystem;

constexpr int kTryAgain = 75;  // EX_TEMPFAIL

Cache open_cache() {
  const std::string root = environment_variable("DLFLOW_CACHE");
  if (root.empty()) throw Error(Errc::InvalidInput, "$DLFLOW_CACHE is not set: it names the cache");
  const std::string budget = environment_variable("DLFLOW_CACHE_BUDGET");
  return Cache(root, budget.empty() ? 0 : parse_size(budget));
}

/// The size of a source that is still to be fetched, if that is quickly known.
std::optional<uint64_t> size_of(const Source& source, Cache& cache) {
  if (source.file.empty()) return remote_size(source.url, cache.new_file());
  std::error_code error;
  const uint64_t bytes = fs::file_size(source.file, error);
  return error ? std::nullopt : std::optional(bytes);
}

/// Brings all sources into the cache; the sizes of all are asked for before the first is fetched,
/// so that progress is a fraction of a known whole.
std::vector<StagedSource> stage_all(const std::vector<Source>& sources, Cache& cache,
                                    Progress& progress) {
  std::vector<std::optional<StagedSource>> staged;
  for (size_t i = 0; i < sources.size(); ++i) {
    staged.push_back(find_staged(sources[i], cache));
    const auto bytes = staged[i] ? staged[i]->bytes() : size_of(sources[i], cache);
    if (bytes) progress.set_total(i, *bytes);
  }
  std::vector<StagedSource> all;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool was_cached = staged[i].has_value();
    if (!was_cached) {
      staged[i] = stage_source(sources[i], cache, RetryPolicy{},
                               [&](uint64_t bytes, std::optional<uint64_t> total_bytes) {
                                 if (total_bytes) progress.set_total(i, *total_bytes);
                                 progress.set_done(i, bytes);
                               });
    }
    progress.complete(i);
    std::printf("%s: %s%s\n", sources[i].name.c_str(), format_size(staged[i]->bytes()).c_str(),
                was_cached ? ", from the cache" : "");
    std::fflush(stdout);
    all.push_back(std::move(*staged[i]));
  }
  return all;
}

/// Makes OUTPUTS/data, all of it or nothing.
void place_all(const std::vector<Source>& sources, const std::vector<StagedSource>& staged,
               const fs::path& outputs) {
  const fs::path temporary = outputs / "data.tmp";
  const fs::path data = outputs / "data";
  std::error_code ignored;
  fs::remove_all(temporary, ignored);
  fs::remove_all(data, ignored);
  try {
    make_directories(temporary);
    for (size_t i = 0; i < sources.size(); ++i) place(staged[i], temporary, sources[i].name);
    if (::rename(temporary.c_str(), data.c_str()) != 0) {
      throw_errno("cannot write " + data.string(), errno);
    }
  } catch (...) {
    fs::remove_all(temporary, ignored);
    throw;
  }
}

/// All files as they lie below `data`.
Listing combine(const std::vector<Source>& sources, const std::vector<StagedSource>& staged) {
  Listing all;
  for (size_t i = 0; i < sources.size(); ++i) {
    for (const auto& [name, file] : staged[i].listing) {
      all[sources[i].name + (name.empty() ? "" : "/" + name)] = file;
    }
  }
  return all;
}

void stage() {
  const StepEnvironment environment = read_step_environment();
  const std::vector<Source> sources = parse_sources(environment.with);
  Cache cache = open_cache();
  Progress progress(environment.metrics, sources.size());
  const std::vector<StagedSource> staged = stage_all(sources, cache, progress);
  place_all(sources, staged, environment.outputs);

  const Listing all = combine(sources, staged);
  uint64_t bytes = 0;
  bool all_verified = true;
  for (const auto& [name, file] : all) bytes += file.bytes;
  for (const Source& source : sources) all_verified = all_verified && !source.sha256.empty();
  write_outputs(environment, {{"path", {{"value", "data"}, {"sha256", hash_of(all)}}}});
  write_summary(environment, {{"bytes", bytes}, {"files", all.size()}});
  progress.finish(format_size(bytes) + " staged, " + format_count(all.size()) +
                  (all.size() == 1 ? " file" : " files") + (all_verified ? " verified" : ""));
}

}  // namespace

int stage_main() {
  watch_stop_signals();
  return run_step([] {
    try {
      stage();
      return 0;
    } catch (const Stopped&) {
      std::printf("stopped; what was downloaded so far is kept\n");
      return kTryAgain;
    }
  });
}

}  // namespace dlflow::steps
