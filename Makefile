# Every target is one line over `python -m tinyvllm`, pip or pytest; without make, type that line
# yourself. Works with GNU make 3.81 and later. No target may be called `all`: chapter targets take it
# as their argument.

PY := .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup run lab doctor test test-fast test-gpu build status clean distclean FORCE
.PHONY: test-chapter promote-chapter reset-chapter

# PROMPT reaches the program as it was typed: through the environment, expanded neither here nor by a shell.
ifdef PROMPT
  override PROMPT := $(value PROMPT)
  export PROMPT
endif

# `make test-chapter 3`: what follows a chapter target is its argument, not another target.
VERB := $(filter test-chapter promote-chapter reset-chapter,$(firstword $(MAKECMDGOALS)))
ifneq (,$(VERB))
  NUMBERS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
  ifneq (,$(NUMBERS))
    N := $(NUMBERS)
    .PHONY: $(NUMBERS)
    $(eval $(NUMBERS):;@:)
  endif
  ifeq (,$(N))
    $(error which chapter? Try: make $(VERB) 3)
  endif
endif

# The set-up runs by itself before the first target that needs it, again when pyproject.toml or
# constraints.txt changed, and when one of its options is given; never for a Python of your own (PY=...).
READY := $(if $(filter .venv/%,$(PY)),.venv/.ready)
CHOSEN := $(if $(filter command,$(foreach v,EXTRAS PYTHON TORCH_INDEX,$(origin $(v)))),FORCE)

.venv/.ready: pyproject.toml constraints.txt $(CHOSEN)
	@sh scripts/setup.sh
FORCE:

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
setup: .venv/.ready ## make .venv and install everything (EXTRAS=gpu13 TORCH_INDEX=url PYTHON=python3.12)
	@echo "Ready: make run, make lab, make doctor"
run: $(READY) ## ask the model: make run PROMPT="What is the capital of France?"
	@$(PY) -m tinyvllm run $(ARGS)
lab: $(READY) ## open the chapters in JupyterLab
	@$(PY) -m tinyvllm lab $(ARGS)
doctor: $(READY) ## check this machine, one line a finding (ARGS=--json)
	@$(PY) -m tinyvllm doctor $(ARGS)
test-chapter: $(READY) ## check your chapter: make test-chapter 3 (REF=1 checks the reference solution)
	@$(PY) -m tinyvllm course test $(N) $(if $(REF),--ref) $(ARGS)
promote-chapter: $(READY) ## put your code of a chapter into the engine: make promote-chapter 3
	@$(PY) -m tinyvllm course promote $(N) $(ARGS)
reset-chapter: $(READY) ## put the reference code back: make reset-chapter 3
	@$(PY) -m tinyvllm course reset $(N) $(ARGS)
status: $(READY) ## show every chapter: exercises done, and whose code the engine runs
	@$(PY) -m tinyvllm course status $(ARGS)
build: $(READY) ## make notebooks and modules from solutions/*.md (CHECK=1: only say what is stale)
	@$(PY) -m tinyvllm course build $(if $(CHECK),--check) $(ARGS)
test: $(READY) ## run the whole test suite, but for tests that need a GPU (ARGS="-k rope")
	@$(PY) -m pytest -n 2 --dist worksteal -m "not gpu" $(ARGS)
test-fast: $(READY) ## run what takes seconds
	@$(PY) -m pytest -m "not slow and not browser and not gpu" $(ARGS)
test-gpu: $(READY) ## run the tests that need an NVIDIA GPU (PY=python3 uses a Python of your own)
	@$(PY) -m pytest -m gpu tests/engine tests/cuda tests/project/test_doctor.py $(ARGS)
clean: ## remove caches and build output; your chapters, the model and .venv stay
	@rm -rf build dist .pytest_cache .ruff_cache .hypothesis && find . -name .venv -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
distclean: clean ## remove .venv as well
	@rm -rf .venv *.egg-info
