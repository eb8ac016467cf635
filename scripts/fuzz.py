"""Do damaged files ever crash, hang, eat memory, run code, or write where they should not?

    python scripts/fuzz.py --files 100000

Good files of every kind that ascribo reads (recordings, large ones mapped or unpacked, run folders, maps, states of
interrupted fits, sweeps; `fuzz_files.py`) are damaged at random (`fuzz_damage.py`): bytes flipped, cut out, doubled
or exchanged, odd values in JSON and in the tensors of models with good checksums, links and pipes where files
belong. They are read in another process.
Beside them, hypothesis edits files in ways that keep their form (`fuzz_structured.py`). A reader may succeed, or
refuse with a ValueError (a FileNotFoundError or ImportError where the file names something that is not there, a
TypeError that ascribo raises itself). All else counts:

    error     another exception: a reader that did not foresee the damage
    hang      more than 5 seconds for one file (on Linux those do not count in which others had the processor)
    memory    more than 1 GB for one file
    crash     the process died
    written   something outside the file's own folder was written, or code from a file ran

The exit status is 0 only if nothing was counted.
"""

import argparse
import linecache
import math
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from fuzz_damage import damage_case, is_untouched
from fuzz_files import Case, make_cases, read
from keep_figures import keep_figures

FINE = (ValueError, FileNotFoundError, ImportError)
SECONDS, BYTES = 5, 10**9


def is_fine(error: BaseException) -> bool:
    """Whether a reader may end in this error: a TypeError must be one that ascribo raises itself, in words."""
    return isinstance(error, FINE) or (isinstance(error, TypeError) and _raised_by_ascribo(error))


def _raised_by_ascribo(error: BaseException) -> bool:
    """Whether this error, and the one it was made from, come from a `raise` in ascribo."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    frame, line = trace.tb_frame, linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
    own = frame.f_globals.get("__name__", "").partition(".")[0] == "ascribo" and line.lstrip().startswith("raise")
    return own and (error.__cause__ is None or _raised_by_ascribo(error.__cause__))


class Peak:
    """By how much the memory of this process rises, at its highest. Where the system can count from anew (Linux), a
    file that takes much does not hide the next."""

    def __init__(self):
        self._anew = True
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = self._status("VmRSS")
        except OSError:
            self._anew, self._before = False, self._highest()

    def rise(self) -> int:
        """Bytes since this was made."""
        return (self._status("VmHWM") if self._anew else self._highest()) - self._before

    @staticmethod
    def _status(name: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

    @staticmethod
    def _highest() -> int:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def work(tasks, results, good: list[Case], folder: Path) -> None:
    """Read damaged files until there are no more, telling of each before and after."""
    warm_up(good, folder)
    for number in iter(tasks.get, None):
        rng = np.random.default_rng(number)
        case = good[number % len(good)]
        place = folder / "read" / str(number)
        results.put((number, case.kind, "began", ""))
        place.mkdir(parents=True)
        outcome, why = outcome_of(case, damage_case(case, place, rng))
        outcome = outcome if is_untouched(place) else "written"
        shutil.rmtree(place)
        results.put((number, case.kind, outcome, why))


def warm_up(good: list[Case], folder: Path) -> None:
    """Read all good files: what it takes to import the libraries is not the fault of a file."""
    warnings.simplefilter("ignore")
    (folder / "whole").mkdir(exist_ok=True)
    for case in good:
        place = Path(tempfile.mkdtemp(dir=folder / "whole"))
        read(case.reader, case.copied(place)[0])
        shutil.rmtree(place)


def outcome_of(case: Case, root: Path) -> tuple[str, str]:
    """What comes of reading, and where an error came from."""
    outcome, why, peak = "fine", "", Peak()
    try:
        with limited_time():
            read(case.reader, root)
    except TimeoutError:
        outcome = "hang"
    except MemoryError:
        outcome = "memory"
    except BaseException as error:
        if not is_fine(error):
            outcome, why = "error", traceback.format_exc(limit=-3)
    return ("memory", "") if peak.rise() > BYTES else (outcome, why)


def structured(examples: int, seed: int | None = 0, good: list[Case] | None = None) -> int:
    """Read so many files that hypothesis edits; how many were read. Raises what is not fine, with the edit."""
    from fuzz_structured import read_edited

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if good is None:
            (folder / "good").mkdir()
            good = make_cases(folder / "good")
        (folder / "read").mkdir()
        known = {case.reader: case for case in good}
        warm_up(good, folder)

        def check(reader: str, root: Path) -> None:
            outcome, why = outcome_of(known[reader], root)
            assert outcome == "fine", f"{outcome}: {reader}\n{why}"

        done = read_edited(good, check, examples, seed, folder / "read")
        assert sorted(p.name for p in folder.iterdir() if p.name != "good") == ["read", "whole"]
        return done


@contextmanager
def limited_time() -> Iterator[None]:
    """A TimeoutError within the block after 5 seconds, not counting those in which others had the processor."""
    seen = waited()

    def over(*_: object) -> None:
        nonlocal seen
        lost, seen = waited() - seen, waited()
        if lost < 1:
            raise TimeoutError
        signal.alarm(math.ceil(lost))

    signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def waited() -> float:
    """Seconds in which this process could have run and others had the processor; 0 where no system says so."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


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


def main() -> int:
    """Damage, read, count."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--edited", type=int, help="files that hypothesis edits (a tenth of --files)")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    began = time.monotonic()
    result = fuzz(given.files, given.seed, given.jobs)
    for example in result["examples"]:
        print(f"{example['outcome']}: file {example['file']}, {example['kind']}\n{example.get('why', '')}")
    edited, failed = given.files // 10 if given.edited is None else given.edited, 0
    if edited:
        os.environ["ASCRIBO_FUZZ_MARK"] = os.devnull
        try:
            result["edited"] = structured(edited, given.seed)
        except AssertionError:
            traceback.print_exc()
            failed, result["edited"] = 1, "failed"
    figures = {key: result[key] for key in ("files", "kinds", "counts", "edited") if key in result}
    figures |= {"seed": given.seed, "seconds": round(time.monotonic() - began)}
    keep_figures(given.out, figures)
    return int(bool(failed) or result["counts"] != {"fine": given.files})


if __name__ == "__main__":
    sys.exit(main())
