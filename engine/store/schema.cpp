#include "engine/store/schema.h"

#include <array>

#include "base/error.h"

namespace dlflow {
namespace {

int64_t version_of(Database& database) {
  const Rows rows = database.query("PRAGMA user_version");
  rows->next();
  return rows->integer(0);
}

}  // namespace

std::span<const Migration> migrations() {
  static const std::array<Migration, 10> steps = {
      R"sql(
-- One row per run.
CREATE TABLE runs(
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,  -- fashion-mnist-7f3a91c0
  workflow    TEXT NOT NULL,         -- fashion-mnist
  profile     TEXT NOT NULL,
  directory   TEXT NOT NULL,         -- RUN, absolute
  state       TEXT NOT NULL,         -- running, succeeded, failed, cancelled, interrupted
  started_ms  INTEGER NOT NULL,      -- since 1970, UTC, as all *_ms
  ended_ms    INTEGER,
  engine_read INTEGER NOT NULL       -- bytes of RUN/events.jsonl that sync_run has recorded
);
CREATE INDEX runs_by_workflow ON runs(workflow, started_ms);

-- How many jobs of a run are in each state: a copy, so that a list of runs reads no jobs.
CREATE TABLE counts(
  run   INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  state TEXT NOT NULL,
  jobs  INTEGER NOT NULL,
  PRIMARY KEY(run, state)
) WITHOUT ROWID;

-- What fingerprints are made of at plan time, each text once. For `dlflow explain`.
CREATE TABLE bases(
  id     INTEGER PRIMARY KEY,
  sha256 TEXT NOT NULL UNIQUE,  -- of text
  text   TEXT NOT NULL          -- canonical JSON, see engine/plan/fingerprint.h
);

-- The present of each job: a copy of what its events say.
CREATE TABLE jobs(
  run         INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  number      INTEGER NOT NULL,  -- its place in the plan
  name        TEXT NOT NULL,     -- train[lr=0.1]
  state       TEXT NOT NULL,     -- planned, queued, …
  base        INTEGER NOT NULL,  -- bases.id
  attempt     INTEGER NOT NULL,  -- the latest; 0: never submitted
  events      INTEGER NOT NULL,  -- how many it has
  started_ms  INTEGER,           -- of the latest attempt: first running
  ended_ms    INTEGER,           -- of the latest attempt: its last state
  backend_id  TEXT,              -- pid or SLURM job id
  node        TEXT,
  exit        INTEGER,
  reason      TEXT,
  fingerprint TEXT,              -- SHA-256; of succeeded and cached jobs
  outputs     TEXT,              -- JSON: name -> {"value", "sha256"}, see JobEvent::outputs
  metrics     TEXT,              -- JSON: name -> number
  reused_from TEXT,              -- of cached jobs: the folder of the job whose outputs it takes
  PRIMARY KEY(run, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX jobs_by_name ON jobs(run, name);
CREATE INDEX jobs_by_fingerprint ON jobs(fingerprint) WHERE fingerprint IS NOT NULL;

-- What happened, in the order it was recorded. Never changed.
CREATE TABLE events(
  run     INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  job     INTEGER NOT NULL,  -- jobs.number
  number  INTEGER NOT NULL,  -- 1, 2, … of this job
  attempt INTEGER NOT NULL,
  state   TEXT,              -- NULL: a note that changed no state
  at_ms   INTEGER NOT NULL,
  detail  TEXT,              -- JSON: the event's other keys, as in events.jsonl; NULL: none
  PRIMARY KEY(run, job, number)
) WITHOUT ROWID;
)sql",
      // Two runs may have drawn one name in two folders: a run is identified by its folder.
      R"sql(
CREATE INDEX runs_by_directory ON runs(directory);
)sql",
      // Deletes the remembered hashes: they lack ctime, the time that no tool can set back.
      "",  // changed the table `files`, which a later step makes anew
      // These rows stay when their run is removed: a bad node exists longer than the run.
      R"sql(
CREATE TABLE node_failures(
  cluster TEXT NOT NULL,     -- what it calls itself
  node    TEXT NOT NULL,
  run     TEXT NOT NULL,     -- runs.name
  job     TEXT NOT NULL,     -- that was lost with it
  at_ms   INTEGER NOT NULL,
  PRIMARY KEY(cluster, node, run, job, at_ms)
) WITHOUT ROWID;
-- Failures up to then do not count.
CREATE TABLE forgiven_nodes(
  cluster TEXT NOT NULL,
  node    TEXT NOT NULL,
  at_ms   INTEGER NOT NULL,
  PRIMARY KEY(cluster, node)
) WITHOUT ROWID;
)sql",
      // Failures that a workflow allows do not count as failures of the run.
      R"sql(
ALTER TABLE jobs ADD COLUMN may_fail INTEGER NOT NULL DEFAULT 0;  -- its step has `allow_failure: true`
)sql",
      // A run may get more jobs while it runs.
      R"sql(
ALTER TABLE runs ADD COLUMN extension INTEGER NOT NULL DEFAULT 0;  -- the newest of RUN/extensions that `jobs` is laid out with
)sql",
      // These rows stay when their run is removed, because its effects elsewhere remain.
      R"sql(
CREATE TABLE overtaken(      -- what commands did that older results without outputs may not outlive
  workflow    TEXT NOT NULL,
  job         TEXT NOT NULL,
  fingerprint TEXT NOT NULL,     -- of what was done; '' if it has none
  started_ms  INTEGER NOT NULL,  -- the last time
  run         INTEGER NOT NULL,  -- runs.id that it had
  PRIMARY KEY(workflow, job, fingerprint)
) WITHOUT ROWID;
)sql",
      // Deletes the remembered hashes: disk images mounted in one place, one after the other, may
      // have files with the same inodes and times.
      R"sql(
DROP TABLE IF EXISTS files;
-- Content hashes of files that workflows read, valid while nothing but `sha256` could differ.
CREATE TABLE files(
  path     TEXT NOT NULL,     -- absolute
  device   INTEGER NOT NULL,  -- the file system, as this host calls it
  size     INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  inode    INTEGER NOT NULL,
  sha256   TEXT NOT NULL,
  PRIMARY KEY(path, device)
) WITHOUT ROWID;
)sql",
      // Among commands that run at the same time, the last to end counts.
      R"sql(
ALTER TABLE overtaken RENAME COLUMN started_ms TO ended_ms;
)sql",
      // Results made while such a command ran do not count either.
      R"sql(
ALTER TABLE overtaken ADD COLUMN began_ms INTEGER NOT NULL DEFAULT 0;  -- the first time
)sql",
  };
  return steps;
}

void migrate(Database& database, std::span<const Migration> steps) {
  const auto newest = int64_t(steps.size());
  if (version_of(database) == newest) return;
  Transaction transaction(database);
  const int64_t version = version_of(database);  // another process may have migrated it
  if (version > newest) {
    throw Error(Errc::InvalidInput,
                database.file().string() + " was written by a newer dlflow (version " +
                    std::to_string(version) + "; this one supports " + std::to_string(newest) +
                    "); use that one, or set DLFLOW_HOME to another folder");
  }
  for (int64_t step = version; step < newest; ++step) database.script(steps[size_t(step)]);
  database.script("PRAGMA user_version = " + std::to_string(newest));
  transaction.commit();
}

}  // namespace dlflow
