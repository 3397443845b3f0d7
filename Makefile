# Two commands do everything: `make book` and `make test`. Both set up the environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SITE   := _build/html
# PyTorch's own index has the CPU builds that the ordinary one lacks on Linux.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help book test lab execute reference studies bench lock clean

help: ## list these commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

book: $(READY) ## build the site into _build/html
	$(BIN)/jupyter-book build . --all -W --keep-going -n
	@echo "open $(SITE)/index.html"

# One fresh store for the unit tests and the notebooks: what is left on a machine would hide training that no longer
# works, and no page need wait for what a test has trained.
test: export TASKSYM_STORE := $(CURDIR)/_build/test-store
test: export OMP_NUM_THREADS := 1# of each of the two workers
test: export OPENBLAS_NUM_THREADS := 1
test: $(READY) ## run all tests, all notebooks, a strict build and the tests of the site
	rm -rf $(TASKSYM_STORE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -n 2 --dist worksteal --ignore tests/site
	$(BIN)/pytest -n 2 --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout 300 -p no:cacheprovider book
	$(MAKE) book
	TASKSYM_REQUIRE_SITE=1 $(BIN)/pytest tests/site

lab: $(READY) ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab book

execute: $(READY) ## run all text twins and store the notebooks
	$(BIN)/python book/_tools/execute.py
	$(BIN)/python book/_tools/pictures.py

reference: $(READY) ## train the reference solutions anew
	$(BIN)/python -c 'from tasksym.references import write_references; write_references()'

studies: $(READY) ## compute the tables in book/studies anew
	@for study in book/studies/[a-z]*.py; do echo "$$study"; $(BIN)/python "$$study" || exit 1; done

# A variable that picks an old kernel for OpenBLAS, where it is set, would slow down one side of a race.
bench: $(READY) ## race the peers: training, ablated rollouts, ordered Schur, tensors
	env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $(BIN)/python tests/benchmarks/race.py

lock: $(READY) ## resolve pyproject.toml anew into requirements.txt
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile --universal --fork-strategy fewest --python-version 3.11 --extra book --extra test --upgrade --quiet \
	  --no-header --annotation-style line --find-links $(TORCH_INDEX)/torch/ pyproject.toml \
	  | sed "s/ ; sys_platform == 'darwin' or sys_platform == 'linux' or sys_platform == 'win32'//" > requirements.txt

clean: ## remove the environment and everything built
	rm -rf $(VENV) _build

# torch comes first and alone, so that no resolver can answer with a CUDA build. The ordinary index (or a wheel on disk)
# is asked before PyTorch's, since an index that cannot be reached costs minutes of retries.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("tasksym needs Python 3.11 or newer; name one: make PYTHON=python3.12 …" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@grep '^torch==' requirements.txt > $(VENV)/torch.txt
	@echo "installing torch (CPU build)"
	@$(BIN)/pip install --quiet --no-deps -r $(VENV)/torch.txt 2> /dev/null \
	  || $(BIN)/pip install --quiet --no-deps --extra-index-url $(TORCH_INDEX) -r $(VENV)/torch.txt
	@echo "installing the rest"
	@$(BIN)/pip install --quiet -r requirements.txt
	@$(BIN)/pip install --quiet --no-deps --editable .
	@touch $@
