#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/parse_json.h"
#include "engine/plan/fingerprint.h"
#include "engine/store/job_table.h"
#include "engine/store/store.h"

/// Effects that commands of removed runs had outside of their outputs: the table `overtaken`, and a
/// hidden file beside the other runs, for `doctor --rebuild`.
namespace dlflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEffects = ".effects.json";

/// An effect of a job that replaces the effects of jobs of its name in other runs.
struct Undoing {
  std::string workflow, job, fingerprint;
  int64_t began_ms = 0;
  int64_t ended_ms = 0;  ///< 0: unknown
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Undoing, workflow, job, fingerprint, began_ms, ended_ms)

std::vector<Undoing> undone_by(Database& database, int64_t run) {
  std::vector<Undoing> found;
  const Rows rows = database.query(
      "SELECT DISTINCT runs.workflow, jobs.name, coalesce(jobs.fingerprint, ''), " +
          std::string(kBegan) +
          ", coalesce(jobs.ended_ms, jobs.started_ms, 0), older.outputs "
          "FROM jobs JOIN runs ON runs.id = jobs.run JOIN bases ON bases.id = jobs.base "
          "JOIN runs AS other ON other.workflow = runs.workflow AND other.id <> runs.id "
          "JOIN jobs AS older ON older.run = other.id AND older.name = jobs.name "
          "WHERE jobs.run = ?1 AND instr(bases.text, '\"kind\":\"run\"') > 0 "
          "AND older.state IN ('succeeded', 'cached') "
          "AND older.fingerprint IS NOT jobs.fingerprint AND " +
          std::string(kMayHaveBegun),
      run);
  while (rows->next()) {
    if (!act_elsewhere(json_at(*rows, 5))) continue;
    found.push_back(
        {rows->text(0), rows->text(1), rows->text(2), rows->integer(3), rows->integer(4)});
  }
  return found;
}

void add(Database& database, const Undoing& undoing, int64_t run) {
  database.execute(
      "INSERT INTO overtaken(workflow, job, fingerprint, began_ms, ended_ms, run) "
      "VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(workflow, job, fingerprint) DO UPDATE SET "
      "began_ms = min(began_ms, excluded.began_ms), "
      "ended_ms = max(ended_ms, excluded.ended_ms), run = max(run, excluded.run)",
      undoing.workflow, undoing.job, undoing.fingerprint, undoing.began_ms, undoing.ended_ms, run);
}

}  // namespace

void Store::keep_effects(std::string_view run) {
  const fs::path folder = directory(run);
  const int64_t now = to_ms(SystemClock().now());
  Json effects = Json::array();
  for (Undoing& undoing : undone_by(database_, run_id(run))) {
    if (undoing.ended_ms == 0) undoing.ended_ms = now;
    effects.push_back(undoing);
  }
  if (effects.empty()) return;
  const std::string name = "." + folder.filename().string() + std::string(kEffects);
  write_file_atomic(folder.parent_path() / name, effects.dump(1) + "\n", Durability::Synced);
}

void Store::take_effects(const fs::path& runs) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(runs, none)) {
    if (!entry.path().filename().string().ends_with(kEffects)) continue;
    for (const Json& effect : read_json_file(entry.path())) {
      add(database_, effect.get<Undoing>(), 0);  // run 0 is unknown: only times order it
    }
  }
}

void Store::forget(std::string_view run) {
  Transaction transaction(database_);
  const int64_t id = run_id(run);
  for (const Undoing& undoing : undone_by(database_, id)) add(database_, undoing, id);
  database_.execute("DELETE FROM runs WHERE id = ?", id);
  database_.execute("DELETE FROM bases WHERE id NOT IN (SELECT base FROM jobs)");
  transaction.commit();
}

}  // namespace dlflow
