"""Do damaged files ever crash, hang, eat memory, run code, or write where they should not?

    python scripts/fuzz.py --files 100000

Good files of every kind that ascribo reads (recordings, large ones mapped or unpacked, run folders, maps, states of
interrupted fits, sweeps; `fuzz_files.py`) are damaged at random: bytes flipped, cut out, doubled or exchanged, odd
values in JSON with a good checksum. They are read in another process. A reader may succeed, or refuse with a
ValueError (a TypeError, FileNotFoundError or ImportError where the file names something that is not there). All
else counts:

    error     another exception: a reader that did not foresee the damage
    hang      more than 5 seconds for one file
    memory    more than 1 GB for one file
    crash     the process died
    written   something outside the file's own folder was written, or code from a file ran

The exit status is 0 only if nothing was counted.
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from fuzz_files import Case, damage, make_cases, read

FINE = (ValueError, TypeError, FileNotFoundError, ImportError)
SECONDS, BYTES = 5, 10**9


def work(tasks, results, good: list[Case], folder: Path) -> None:
    """Read damaged files until there are no more, telling of each before and after."""
    warnings.simplefilter("ignore")
    (folder / "whole").mkdir(exist_ok=True)
    for case in good:  # what it takes to import the libraries is not the file's fault
        place = Path(tempfile.mkdtemp(dir=folder / "whole"))
        read(case.reader, case.copied(place)[0])
        shutil.rmtree(place)
    signal.signal(signal.SIGALRM, _too_long)
    for number in iter(tasks.get, None):
        rng = np.random.default_rng(number)
        case = good[number % len(good)]
        kind, place = case.kind, folder / "read" / str(number)
        results.put((number, kind, "began", ""))
        place.mkdir(parents=True)
        root, file = case.copied(place)
        file.write_bytes(damage(file.read_bytes(), rng, file.name))
        before, outcome, why = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "fine", ""
        signal.alarm(SECONDS)
        try:
            read(case.reader, root)
        except FINE:
            pass
        except TimeoutError:
            outcome = "hang"
        except MemoryError:
            outcome = "memory"
        except BaseException:
            outcome, why = "error", traceback.format_exc(limit=-3)
        finally:
            signal.alarm(0)
        if (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 > BYTES:
            outcome = "memory"
        shutil.rmtree(place)
        results.put((number, kind, outcome, why))


def _too_long(*_) -> None:
    raise TimeoutError


def fuzz(files: int, seed: int = 0, jobs: int = 2, keep: int = 5) -> dict:
    """Read so many damaged files; what was counted, and a few examples of each fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["ASCRIBO_FUZZ_MARK"] = str(folder / "CODE_RAN")
        (folder / "good").mkdir()
        good = make_cases(folder / "good")
        context = multiprocessing.get_context("spawn")
        tasks, results = context.Queue(), context.Queue()
        for number in range(files):
            tasks.put(seed * 10**9 + number)
        for _ in range(jobs):
            tasks.put(None)
        start = lambda: context.Process(target=work, args=(tasks, results, good, folder))  # noqa: E731
        running = [start() for _ in range(jobs)]
        for process in running:
            process.start()
        counts, examples, open_files, done = Counter(), [], {}, 0
        last = time.monotonic()
        while done < files:
            try:
                number, kind, outcome, why = results.get(timeout=1)
                last = time.monotonic()
            except Exception:  # nothing new: has a process died, or is one stuck where no signal reaches it?
                stuck = time.monotonic() - last > 4 * SECONDS
                for k, process in enumerate(running):
                    if stuck and process.is_alive() and open_files:
                        process.kill()
                        process.join()
                    if not process.is_alive() and process.exitcode:
                        running[k] = start()
                        running[k].start()
                        for number, kind in list(open_files.items()):
                            counts["hang" if stuck else "crash"] += 1
                            examples.append({"file": number, "kind": kind, "outcome": "hang" if stuck else "crash"})
                            del open_files[number]
                            done += 1
                        last = time.monotonic()
                continue
            if outcome == "began":
                open_files[number] = kind
                continue
            open_files.pop(number, None)
            done += 1
            counts[outcome] += 1
            if outcome != "fine" and sum(e["outcome"] == outcome for e in examples) < keep:
                examples.append({"file": number, "kind": kind, "outcome": outcome, "why": why})
            if sys.stderr.isatty() and done % 100 == 0:
                print(f"\r{done:,} of {files:,}", end="", file=sys.stderr, flush=True)
        for process in running:
            process.join(10)
        if sorted(p.name for p in folder.iterdir()) != ["good", "read", "whole"]:
            counts["written"] += 1
        kinds = [case.kind for case in good]
        return {"files": files, "kinds": kinds, "counts": dict(counts), "examples": examples}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    result = fuzz(given.files, given.seed, given.jobs)
    for example in result["examples"]:
        print(f"{example['outcome']}: file {example['file']}, {example['kind']}\n{example.get('why', '')}")
    print(json.dumps({key: result[key] for key in ("files", "kinds", "counts")}))
    sys.exit(result["counts"] != {"fine": given.files})
