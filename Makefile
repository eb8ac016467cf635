# make demo | quick | test | docs | bench | same | fuzz | chaos | cluster | strange | processes | wheel-check | newest | lowest | audit | clean. Each sets up what it needs first.

PYTHON ?= python3
VENV   := .venv
CEBRA  := .venv-cebra
# What `make same` compares with: the last commit before numbers were changed on purpose.
OLD    ?= f9b0cc9
# All tests of a file in one process: what they share is made once.
PYTEST := $(VENV)/bin/python -m pytest -q -n 2 --dist loadfile

# One thread per process: two OpenMP threads on a busy two-core machine are far slower than one.
export OMP_NUM_THREADS := 1

.PHONY: quick .venv demo test docs bench same fuzz chaos cluster strange processes wheel-check newest lowest audit clean
.DELETE_ON_ERROR:

.venv: $(VENV)/stamp

$(VENV)/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

# cebra, the reference to compare with, lives apart: ascribo does not depend on it.
$(CEBRA)/stamp: benchmarks/constraints-cebra.txt
	$(PYTHON) -m venv $(CEBRA)
	$(CEBRA)/bin/python -m pip install --quiet -c $< torch cebra cvxpy captum
	touch $@

demo: .venv
	$(VENV)/bin/ascribo demo --out runs/demo

# The inner loop, under a minute: no type checker, no test that takes long (tests/conftest.py lists them).
quick: .venv
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports
	$(PYTEST) --quick tests

test: .venv
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/lint-imports
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(VENV)/bin/pyright
	$(PYTEST)

# The documentation site: build/docs/index.html. Tutorials run in their quick form; a warning is an error.
$(VENV)/docs-stamp: $(VENV)/stamp
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

docs: $(VENV)/docs-stamp
	rm -rf docs/generated
	$(VENV)/bin/python -m sphinx -q -W --keep-going -b html docs build/docs

bench: .venv $(CEBRA)/stamp
	$(VENV)/bin/python -m benchmarks.cpu
	$(VENV)/bin/python -m benchmarks.answer
	$(VENV)/bin/python -m benchmarks.answer_cebra

# The numbers of the working tree beside those of an old commit, to the last bit: make same OLD=commit.
same: .venv
	$(VENV)/bin/python scripts/same_numbers.py --old $(OLD)

# Damaged files of every kind that is read: none may crash, hang, eat memory or run code.
fuzz: .venv
	$(VENV)/bin/python scripts/fuzz.py --files 100000 --out scripts/results/fuzz.json

# Runs killed at random moments of every phase: each must end with the bits of a run in peace.
chaos: .venv
	$(VENV)/bin/python scripts/chaos.py --kills 100 --out scripts/results/chaos.json

# A sweep on a Dask cluster whose workers and scheduler are killed: the results of one process, nothing lost.
cluster: .venv
	$(VENV)/bin/python scripts/cluster_chaos.py --cells 40 --out scripts/results/cluster_chaos.json

# Recordings of all kinds that users bring: each is answered, or refused with a reason.
strange: .venv
	$(VENV)/bin/python scripts/strange_recordings.py --recordings 1000 --out scripts/results/strange_recordings.json

# The losses of two processes of torchrun beside those of one: nothing but rounding between them.
processes: .venv
	$(VENV)/bin/python scripts/two_processes.py --out scripts/results/two_processes.json

# The wheel, in an empty environment with the core dependencies alone, as constraints.txt pins them.
wheel-check:
	rm -rf build/wheel build/wheel-env
	$(PYTHON) -m venv build/wheel-env
	build/wheel-env/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	build/wheel-env/bin/python -m pip install --quiet -c constraints.txt build/wheel/*.whl
	cd build && wheel-env/bin/python ../scripts/core_check.py

# The same with the newest versions there are. But for torch: without a version the index gives builds for GPUs of gigabytes.
newest:
	rm -rf build/wheel build/newest-env
	$(PYTHON) -m venv build/newest-env
	grep '^torch==' constraints.txt > build/newest.txt
	build/newest-env/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	build/newest-env/bin/python -m pip install --quiet --upgrade -c build/newest.txt build/wheel/*.whl
	cd build && newest-env/bin/python ../scripts/core_check.py

# The same with the oldest versions that pyproject.toml allows.
lowest:
	rm -rf build/wheel build/lowest-env
	$(PYTHON) -m venv build/lowest-env
	build/lowest-env/bin/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	build/lowest-env/bin/python -m pip install --quiet -c constraints-lowest.txt build/wheel/*.whl
	cd build && lowest-env/bin/python ../scripts/core_check.py

# Known vulnerabilities of what is installed; what could not be checked is a failure.
audit:
	$(PYTHON) -m venv build/audit-env
	build/audit-env/bin/python -m pip install --quiet pip-audit
	build/audit-env/bin/python scripts/audit.py

clean:
	rm -rf $(VENV) $(CEBRA) runs build dist docs/generated .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
