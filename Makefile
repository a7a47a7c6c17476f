# The two commands of the README: `make lab` and `make test`. Everything runs inside .venv; nothing is installed outside it.
# PYTHON=/path/to/python3.12 make lab     uses that interpreter (3.11 to 3.13)

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
SETUP = sh scripts/with_python.sh scripts/setup_env.py

# Idle torch threads sleep instead of spinning: on a machine that runs other things too, spinning threads starve each other.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: lab test test-full notebooks slides slides-pdf slides-check handout site claims break-it bench gpu-check lock lint clean setup
.DEFAULT_GOAL := lab

setup:
	@$(SETUP)

# Code in cells wraps as text does: an explorer's call need not be scrolled.
LAB_CONFIG = $(CURDIR)/labsim/lab/jupyter$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}

lab: setup
	@$(BIN)/labsim doctor
	@JUPYTER_CONFIG_PATH="$(LAB_CONFIG)" JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab --ip=127.0.0.1 $(ALLOW_ROOT) --ServerApp.root_dir="$(CURDIR)" \
		--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb

# Two tests at a time on one thread each: what two cores do best.
test:
	@$(SETUP) --browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not full" --durations=40

test-full:
	@$(SETUP) --browser
	$(BIN)/python -m pytest

notebooks: setup
	$(BIN)/labsim run --solve --deadline 600 --out build/notebooks notebooks/*.ipynb

# Every notebook is run, its metrics are recorded, and the claims page is written from them.
claims: setup
	$(BIN)/labsim run --solve --deadline 600 --metrics data/metrics/ci notebooks/*.ipynb
	$(BIN)/labsim claims --out docs/claims.md

# One bug per layer, planted in a copy: the suite must turn red for each. Some ten minutes.
break-it:
	@$(SETUP) --browser
	OMP_NUM_THREADS=1 $(BIN)/python scripts/break_it.py

# The course as pages in build/site; STUDENT=1 leaves the solutions out.
site: setup
	$(BIN)/labsim site $(if $(STUDENT),--student --out build/site-student)

# Every notebook as a deck in build/slides; STUDENT=1 leaves the exercises empty and the hints out of the notes.
SLIDES = $(BIN)/labsim slides $(if $(STUDENT),--student)

slides: setup
	$(SLIDES)

slides-pdf: setup
	@$(SETUP) --browser
	$(SLIDES) --pdf

# Every slide in Chromium: does it fit, can it be read, does it ask the network for anything?
slides-check: setup
	@$(SETUP) --browser
	$(SLIDES) --check

# The course for a class, without solutions.
handout: setup
	$(BIN)/labsim handout

bench: setup
	$(BIN)/python benchmarks/decode_speed.py
	$(BIN)/python benchmarks/simulator_speed.py
	$(BIN)/python benchmarks/predict_published.py
	$(BIN)/python benchmarks/usp.py

gpu-check: setup
	@$(BIN)/python -c "import torch, sys; torch.cuda.is_available() or sys.exit('make gpu-check: torch sees no CUDA GPU here')"
	$(BIN)/labsim doctor
	$(BIN)/python -m pytest tests/gpu
	$(BIN)/python benchmarks/decode_speed.py --device cuda
	$(BIN)/python benchmarks/usp_gpu.py

lint: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup
	$(BIN)/python scripts/update_lock.py

clean:
	rm -rf $(VENV) build

# Jupyter refuses to run as root unless told; containers and CI often are root.
ALLOW_ROOT = $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)
