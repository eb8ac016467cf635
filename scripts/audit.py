"""Are there known vulnerabilities in what `make` installs? Fails as well if that could not be found out.

    python scripts/audit.py

Runs pip-audit on constraints.txt. It says "no known vulnerabilities" also of packages that it skipped, because its
database could not be reached or does not know them. Here every skipped package is a failure.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def judge(found: dict[str, Any]) -> list[str]:
    """What is wrong in what pip-audit found, a line for each package.

    >>> judge({"dependencies": [{"name": "a", "version": "1", "vulns": []}]})
    []
    >>> skipped = {"name": "a", "skip_reason": "not found"}
    >>> judge({"dependencies": [skipped, {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}]})
    ['a was not checked: not found', 'b 2: PYSEC-1']
    >>> judge({"dependencies": [skipped, skipped]})[0]
    'none of 2 packages was checked (not found): can the database of vulnerabilities be reached from here?'
    """
    packages = found.get("dependencies", [])
    if all("skip_reason" in one for one in packages):
        why = packages[0]["skip_reason"] if packages else "pip-audit found none"
        return [
            f"none of {len(packages)} packages was checked ({why}): can the database of vulnerabilities be reached "
            "from here?"
        ]
    wrong = [f"{one['name']} was not checked: {one['skip_reason']}" for one in packages if "skip_reason" in one]
    for one in packages:
        wrong += [f"{one['name']} {one['version']}: {own['id']}" for own in one.get("vulns", [])]
    return wrong


def main() -> int:
    """Ask, judge, print."""
    words = [sys.executable, "-m", "pip_audit", "-r", str(CONSTRAINTS), "--no-deps", "--disable-pip", "-f", "json"]
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        found = json.loads(asked.stdout)
    except ValueError:
        print(f"pip-audit did not answer:\n{asked.stderr.strip()[-1000:]}")
        return 1
    wrong = judge(found)
    for line in wrong:
        print(line)
    number = len(found.get("dependencies", []))
    print("FAILED" if wrong else f"{number} packages without known vulnerabilities")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
