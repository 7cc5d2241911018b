"""Mutation score: how many small faults in engine/, runtime/ and steps/ make a test fail. `./dev mutate` runs this.

All mutants of a source are compiled at once, each behind a switch (mutation.h), so that one build serves thousands.
1. Mutants are found with clang (mutants.py). A copy of the tree, in build/mutate/source, has their switches.
2. The copy is built. A mutant that does not compile is dropped.
3. Every test runs once, in a sandbox (sandbox.py), with no mutant on, to measure its time and record the mutants that it reaches.
4. For each mutant, the tests that reach it run, the quickest first, until one of them fails.
Results are kept in build/mutate: an interrupted run continues there."""

import argparse
import base64
import collections
import functools
import hashlib
import json
import multiprocessing
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import zlib

import mutants as finder
import sandbox
import suite

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOME = ROOT / "build/mutate"
SOURCE = HOME / "source"
BUILD = SOURCE / "build"
STATE = HOME / "state"  # a folder of the worker's own is mounted here
SHARED = STATE / "mutants"
WORKERS = 2
BLOCK = 4096  # numbers per source, so that a change of one source leaves the others as they are
ROUNDS = 8
END_TO_END_SECONDS = 30  # of end-to-end tests that a mutant is tried with
OPTIONS = ["-O1", "-w", "-fdiagnostics-column-unit=byte", "-fno-diagnostics-show-caret", "-include",
           str(SOURCE / "tests/mutation/mutation.h"), f'-DDLFLOW_MUTANTS="{SHARED}"']
# For targets, not for sources: those would each be compiled by itself, which takes five times as long.
TARGETS = """
foreach(folder {folders})
  get_property(targets DIRECTORY ${{folder}} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${{targets}})
    get_target_property(type ${{target}} TYPE)
    if(type MATCHES "LIBRARY|EXECUTABLE" AND NOT type MATCHES INTERFACE)
      set_property(TARGET ${{target}} APPEND PROPERTY COMPILE_OPTIONS [=[{options}]=])
    endif()
  endforeach()
endforeach()
"""
# Of gcc: the place itself, or what instantiates a template of mutation.h. With ccache paths are relative to BUILD.
ERROR = re.compile(rf"^(?:{re.escape(str(SOURCE))}|\.\.)/((?:engine|runtime|steps)/\S+\.cpp):(\d+):(\d+):\s+(?:error|required from here)",
                   re.MULTILINE)


def git_files(*patterns):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, capture_output=True,
                            text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


# 1. Mutants.

class Source:
    """A source with its mutants; those that do not compile are dropped, and that is remembered."""

    def __init__(self, path, slot, flags):
        self.path = path
        self.text = (ROOT / path).read_text(encoding="latin-1")
        rules = pathlib.Path(finder.__file__).read_bytes() + (ROOT / "tests/mutation/mutation.h").read_bytes()
        self.cache = HOME / "found" / (hashlib.sha256(rules + path.encode() + self.text.encode()).hexdigest() + ".json")
        found = json.loads(self.cache.read_text()) if self.cache.exists() else self.find(flags)
        self.mutants, self.dropped, self.unreadable = found["mutants"], set(found["dropped"]), found["unreadable"]
        self.first = slot * BLOCK + 1
        self.tried = set(range(len(self.mutants)))  # all others are left out of the build, which is quicker then

    def find(self, flags):
        try:
            found = {"mutants": finder.find(str(ROOT / self.path), flags)[:BLOCK - 1], "dropped": [], "unreadable": ""}
        except finder.Unreadable as error:
            found = {"mutants": [], "dropped": [], "unreadable": str(error)}
        _write(self.cache, json.dumps(found))
        return found

    def numbers(self):
        return [self.first + index if index in self.tried else None for index in range(len(self.mutants))]

    def rewritten(self):
        return finder.rewritten(self.text, self.mutants, self.numbers())

    def drop(self, places, thoroughly):
        """Drops what an error at line and column can come from: the smallest mutant around it, or all."""
        lines = self.rewritten().split("\n")
        dropped = set()
        for line, column in places:
            offset = sum(len(each) + 1 for each in lines[:line - 1]) + column - 1
            at = finder.original_offset(self.text, self.mutants, self.numbers(), offset)
            left = [(mutant["end"] - mutant["begin"], index) for index, mutant in enumerate(self.mutants)
                    if index in self.tried and (mutant["begin"] <= at <= mutant["end"])]
            if not left or thoroughly:
                left += [(0, index) for index, mutant in enumerate(self.mutants) if mutant["line"] == line]
            dropped |= {index for _, index in (left if thoroughly else sorted(left)[:1])}
        dropped = dropped & self.tried or set(self.tried)
        self.tried -= dropped
        self.dropped |= dropped
        _write(self.cache, json.dumps({"mutants": self.mutants, "dropped": sorted(self.dropped), "unreadable": ""}))


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(text, encoding="latin-1")
    unfinished.replace(path)


def compile_flags():
    """source -> its flags for clang."""
    commands = json.loads((ROOT / "build/dev/compile_commands.json").read_text())
    flags = {}
    for each in commands:
        words = shlex.split(each["command"])
        kept = [word for word in words if word.startswith(("-I", "-D", "-std"))]
        for at, word in enumerate(words):
            if word == "-isystem":
                kept += words[at:at + 2]
        flags[os.path.relpath(each["file"], ROOT)] = kept + ["-w"]
    return flags


def _source(argument):
    return Source(*argument)


@functools.cache
def all_sources():
    return sorted(path for path in git_files("engine/*.cpp", "runtime/*.cpp", "steps/*.cpp")
                  if not path.startswith("runtime/cuda/"))  # no test runs it without a GPU


def find_sources(paths):
    flags = compile_flags()
    wanted = [(path, slot, flags[path]) for slot, path in enumerate(all_sources()) if path in flags and
              any(path == prefix or path.startswith(prefix.rstrip("/") + "/") for prefix in paths)]
    with multiprocessing.Pool(WORKERS) as pool:
        sources = pool.map(_source, wanted, chunksize=1)
    for source in sources:
        if source.unreadable:
            print(f"left out: {source.path}: {source.unreadable}")
    return {source.path: source for source in sources}


# 2. The build.

def copy_tree(sources):
    """The sources as they are, those with mutants aside, and flags for their targets: all else is as in a normal build,
    so that ccache has it."""
    wanted = set(git_files())
    for path in wanted:
        if path not in sources:
            _copy(ROOT / path, SOURCE / path)
    with open(SOURCE / "CMakeLists.txt", "a") as file:
        file.write(TARGETS.format(folders=" ".join(sorted({str(_cmake_folder(path)) for path in sources})),
                                  options=";".join(OPTIONS)))
    for path in subprocess.run(["find", ".", "-path", "./build", "-prune", "-o", "-type", "f", "-print"], cwd=SOURCE,
                               capture_output=True, text=True, check=True).stdout.splitlines():
        if path[2:] not in wanted:
            (SOURCE / path).unlink()


def _cmake_folder(path):
    return next(folder for folder in (SOURCE / path).parents if (folder / "CMakeLists.txt").exists())


def _copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_symlink() or not target.exists() or target.read_bytes() != source.read_bytes():
        target.unlink(missing_ok=True)
        shutil.copy(source, target, follow_symlinks=False)


def write_mutants(sources):
    for source in sources:
        target = SOURCE / source.path
        text = source.rewritten()
        if not target.exists() or target.read_text(encoding="latin-1") != text:
            _write(target, text)


def build(sources, targets):
    copy_tree(sources)
    write_mutants(sources.values())
    subprocess.run(["cmake", "--preset", "release"], cwd=SOURCE, stdout=subprocess.DEVNULL, check=True)
    for attempt in range(ROUNDS):
        made = subprocess.run(["cmake", "--build", BUILD, "-j", str(WORKERS), "--target", *targets, "--", "-k", "0"],
                              capture_output=True, text=True)
        (HOME / "build.log").write_text(made.stdout + made.stderr)
        if made.returncode == 0:
            return
        errors = collections.defaultdict(set)
        for path, line, column in ERROR.findall(made.stdout):
            if path in sources:
                errors[path].add((int(line), int(column)))
        if not errors:
            sys.exit(f"error: the copy cannot be built; see {HOME / 'build.log'}")
        for path, places in errors.items():
            sources[path].drop(places, thoroughly=attempt > 0)
        print(f"{sum(len(places) for places in errors.values())} places in {len(errors)} files do not compile; without them again")
        write_mutants(sources[path] for path in errors)
    sys.exit(f"error: the copy cannot be built; see {HOME / 'build.log'}")


# 3. and 4. In the workers.

def enter_worker():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the workers
    sandbox.end_with_parent()
    own = HOME / "workers" / str(os.getpid())
    own.mkdir(parents=True)
    sandbox.enter(own, STATE)


def run_test(test, number, limit):
    """Did it pass; None if it was skipped. And the seconds it took."""
    SHARED.unlink(missing_ok=True)
    with open(SHARED, "wb") as file:
        file.write(number.to_bytes(4, sys.byteorder))
        file.truncate(4 + 1 + len(all_sources()) * BLOCK)
    SHARED.chmod(0o666)  # some tests start programs of other users
    status, seconds, output = sandbox.run(test["command"], test["folder"], test["environment"], STATE, limit)
    return suite.passed(test, status, output), seconds


def cover(test):
    passed, seconds = run_test(test, 0, 600)
    reached = base64.b64encode(zlib.compress(SHARED.read_bytes()[4:])).decode()
    return {"name": test["name"], "version": suite.version(test, BUILD), "passed": passed, "seconds": seconds,
            "reached": reached}


def try_mutant(work):
    """Runs tests until one of them fails."""
    key, number, tests = work
    seconds_left = END_TO_END_SECONDS
    tried = 0
    for test, seconds in tests:
        if test["e2e"]:
            seconds_left -= seconds
            if seconds_left < 0:
                break
        tried += 1
        if run_test(test, number, 5 * seconds + 10)[0] is False:
            return {"key": key, "state": "killed", "by": test["name"], "reached_by": len(tests), "tried": tried}
    return {"key": key, "state": "survived" if tests else "not reached", "reached_by": len(tests), "tried": tried}


def workers():
    shutil.rmtree(HOME / "workers", ignore_errors=True)
    STATE.mkdir(parents=True, exist_ok=True)
    return multiprocessing.Pool(WORKERS, initializer=enter_worker)


def coverage(tests):
    """Of each test that passes without a mutant: the test, its seconds, the numbers it reaches."""
    file = HOME / "coverage.jsonl"
    known = {each["name"]: each for each in _lines(file) if each["passed"]}  # the others may pass now
    todo = [test for test in tests if known.get(test["name"], {}).get("version") != suite.version(test, BUILD)]
    with workers() as pool, open(file, "a") as log:
        for done in _shown(pool.imap_unordered(cover, todo), len(todo), "tests run once"):
            known[done["name"]] = done
            log.write(json.dumps(done) + "\n")
    covered = []
    for test in tests:
        each = known[test["name"]]
        if each["passed"]:
            reached = zlib.decompress(base64.b64decode(each["reached"]))
            covered.append((test, each["seconds"], [found.start() for found in re.finditer(b"\1", reached)]))
        else:
            print(f"left out: {test['name']}: " + ("skipped here" if each["passed"] is None else "fails without a mutant"))
    return covered


def _lines(file):
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _shown(results, total, what):
    shown = time.monotonic()
    for count, result in enumerate(results, 1):
        yield result
        if time.monotonic() - shown > 15 or count == total:
            shown = time.monotonic()
            print(f"{time.strftime('%H:%M:%S')} {count} of {total} {what}", flush=True)


# 4. Which mutants, and what became of them.

def chosen(sources, options):
    """(source, index) of the mutants to try. Those that do not compile are among the samples, so that these stay the same."""
    return [(source, index) for source, index in _chosen(sources, options.sample, options.of_each, options.seed, options.listed)
            if index not in source.dropped]


def listed_keys(file):
    return [line.split(" (reached by")[0] for line in file.read_text(encoding="latin-1").splitlines()]


def _chosen(sources, sample, of_each, seed, listed):
    if listed is not None:
        keys = set(listed_keys(listed))
        return [(source, index) for source in sources.values() for index in range(len(source.mutants))
                if key_of(source, index) in keys]
    by_folder = collections.defaultdict(list)
    for source in sources.values():
        folder = str(pathlib.PurePath(source.path).parent)
        by_folder[folder] += [(source, index) for index in range(len(source.mutants))]
    total = sum(map(len, by_folder.values()))
    if of_each is not None:  # the same ones of a folder, whatever other folders there are
        return [each for folder in sorted(by_folder) for each in
                random.Random(f"{seed} {folder}").sample(by_folder[folder], min(of_each, len(by_folder[folder])))]
    if sample is None or sample >= total:
        return [each for folder in sorted(by_folder) for each in by_folder[folder]]
    shares = {folder: sample * len(each) / total for folder, each in by_folder.items()}
    counts = {folder: int(share) for folder, share in shares.items()}
    for folder in sorted(shares, key=lambda each: counts[each] - shares[each])[:sample - sum(counts.values())]:
        counts[folder] += 1
    choice = random.Random(seed)
    return [each for folder in sorted(by_folder) for each in choice.sample(by_folder[folder], counts[folder])]


def key_of(source, index):
    mutant = source.mutants[index]
    return f"{source.path}:{mutant['line']}:{mutant['column']} {mutant['kind']}: {mutant['original']} -> {mutant['mutant']}"


def equivalents():
    """The mutants that a person has found to change nothing, without their places, since lines move: text -> what stands in
    their line or the one above; "" for any line."""
    lines = (pathlib.Path(__file__).parent / "equivalent.txt").read_text(encoding="latin-1").splitlines()
    known = collections.defaultdict(set)
    for line in lines:
        if line.strip() and not line.startswith("#"):
            mutant, _, place = line.partition(" @ ")
            known[mutant.strip()].add(place.strip())
    return known


def is_equivalent(source, index, known):
    line = source.mutants[index]["line"]
    around = " ".join(source.text.split("\n")[max(0, line - 2):line])
    return any(place in around for place in known.get(without_place(key_of(source, index)), ()))


def without_place(key):
    return re.sub(r":\d+:\d+ ", " ", key, count=1).strip()


def try_all(choice, covered, again):
    file = HOME / "results.jsonl"
    results = {each["key"]: each for each in _lines(file) if not again or each["state"] == "killed"}
    tests = collections.defaultdict(list)
    for test, seconds, reached in covered:
        for number in reached:
            tests[number].append((test, seconds))
    work = []
    for source, index in choice:
        number = source.first + index
        known = results.get(key_of(source, index))
        # A survivor is tried again when other tests reach it.
        if known is None or (known["state"] != "killed" and known["reached_by"] != len(tests[number])):
            order = sorted(tests[number], key=lambda each: (each[0]["e2e"], each[1]))
            work.append((key_of(source, index), number, order))
    random.Random(0).shuffle(work)
    try:
        with workers() as pool, open(file, "a") as log:
            for result in _shown(pool.imap_unordered(try_mutant, work), len(work), "mutants tried"):
                results[result["key"]] = result
                log.write(json.dumps(result) + "\n")
                log.flush()
    except KeyboardInterrupt:
        print("interrupted; the same command continues from here")
    return results


def report(choice, results):
    rows = collections.defaultdict(collections.Counter)
    survivors = []
    known = equivalents()
    for source, index in choice:
        result = results.get(key_of(source, index))
        if result is None:  # interrupted
            continue
        if result["state"] != "killed" and is_equivalent(source, index, known):
            continue
        for folder in (str(pathlib.PurePath(source.path).parent), "total"):
            rows[folder].update(["mutants", result["state"]])
        if result["state"] != "killed":
            tried = "" if result["tried"] == result["reached_by"] else f", {result['tried']} tried"
            survivors.append(f"{result['key']} (reached by {result['reached_by']} tests{tried})")
    (HOME / "survivors.txt").write_text("".join(line + "\n" for line in sorted(survivors)), encoding="latin-1")
    print(f"\n{'folder':24}{'mutants':>9}{'killed':>9}{'survived':>10}{'not reached':>13}{'score %':>9}")
    for folder in sorted(rows, key=lambda each: (each == "total", each)):
        row = rows[folder]
        print(f"{folder:24}{row['mutants']:9}{row['killed']:9}{row['survived']:10}{row['not reached']:13}"
              f"{100 * row['killed'] / row['mutants']:9.1f}")
    print(f"\nsurvivors: {HOME / 'survivors.txt'}")


def arguments():
    parser = argparse.ArgumentParser(prog="./dev mutate", description="How many small faults do the tests notice?")
    parser.add_argument("--sample", type=int, metavar="N", help="N mutants at random, not all")
    parser.add_argument("--of-each", type=int, metavar="N", help="N mutants of each folder at random")
    parser.add_argument("--listed", type=pathlib.Path, metavar="FILE", help="the mutants of a survivors.txt")
    parser.add_argument("--tests", default="", metavar="REGEX",
                        help="only tests of such names; a second call can try with others what these did not kill")
    parser.add_argument("--targets", nargs="+", default=["programs", "tests/unit/all", "tests/support/all"], metavar="TARGET",
                        help="what is built: fewer tests are ready sooner (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (default: 1)")
    parser.add_argument("--again", action="store_true", help="try survivors of earlier runs again, with the tests as they are now")
    parser.add_argument("paths", nargs="*", default=["engine", "runtime", "steps"], metavar="PATH",
                        help="folders or files (default: engine runtime steps)")
    return parser.parse_args()


def main():
    options = arguments()
    if reason := sandbox.missing():
        sys.exit(f"error: faulty programs need a sandbox: {reason}")
    if ROOT.is_relative_to("/tmp"):
        sys.exit("error: tests get a /tmp of their own, and would not see the build: clone dlflow elsewhere")
    begin = time.monotonic()
    if options.listed:
        options.paths = sorted({key.split(":")[0] for key in listed_keys(options.listed)})
    sources = find_sources(options.paths)
    print(f"{sum(len(each.mutants) for each in sources.values())} mutants in {len(sources)} sources", flush=True)
    choice = chosen(sources, options)
    for source in sources.values():
        source.tried = {index for each, index in choice if each is source}
    build(sources, options.targets)
    print(f"built after {time.monotonic() - begin:.0f} s; {sum(len(each.dropped) for each in sources.values())} "
          "mutants do not compile", flush=True)
    covered = coverage([test for test in suite.find(BUILD, str(SHARED).encode()) if re.search(options.tests, test["name"])])
    choice = [(source, index) for source, index in choice if index in source.tried]
    report(choice, try_all(choice, covered, options.again))
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
