# Every target is one call of the fork tool; `scripts/mpsfork COMMAND --help` tells its options.
MPSFORK := scripts/mpsfork

.DEFAULT_GOAL := help
.PHONY: setup fetch apply refresh verify drift rebase export doctor simulator demo test test-layered test-mps test-mps-more test-next test-sanitized test-entries test-newer mutants wheel lint-overlay sweep state bench models graph-caching fallback-bench fallback-sync numbers release-notes pre-commit clean help

setup:      ## install what this machine lacks (Debian, Ubuntu), make the virtual environment
	@$(MPSFORK) setup

fetch:      ## get PyTorch's source into build/pytorch
	@$(MPSFORK) fetch

apply:      ## apply the series to it, one commit per entry
	@$(MPSFORK) apply

refresh:    ## take the branch's commits back into patches/ and aten_mps_overlay/
	@$(MPSFORK) refresh

verify:     ## check that every entry applies and keeps the rules
	@$(MPSFORK) verify

drift:      ## say of each entry what would become of it on another base: AGAINST=REF; changes nothing
	@$(MPSFORK) drift $(if $(AGAINST),--against $(AGAINST))

rebase:     ## move the series to another base: ONTO=REF (tag, branch or commit); CONTINUE=1, SKIP=1 or ABORT=1 after a conflict
	@$(MPSFORK) rebase $(if $(ONTO),--onto $(ONTO)) $(if $(CONTINUE),--continue) $(if $(SKIP),--skip) $(if $(ABORT),--abort)

export:     ## write the series as `git format-patch` files to build/export; GHSTACK=1: leave a branch for ghstack; AUTHOR="Name <mail>"
	@$(MPSFORK) export $(if $(GHSTACK),--ghstack) $(if $(AUTHOR),--author "$(AUTHOR)")

doctor:     ## show what this machine has and lacks
	@$(MPSFORK) doctor

simulator:  ## build the Metal simulator with the patched backend (Linux); BASE_ONLY=1: with the base's; TESTS=1: also what only tests run
	@$(MPSFORK) simulator $(if $(TESTS),--tests) $(if $(BASE_ONLY),--base-only) $(if $(CHECKOUT),--checkout $(CHECKOUT))

demo:       ## capture and replay real models, compared with eager
	@$(MPSFORK) demo

test:       ## run all suites of tests
	@$(MPSFORK) test

test-layered: ## run the patched backend on top of the base's, as in the Mac's wheel
	@$(MPSFORK) test --suite layered

test-mps:   ## run upstream's whole test/test_mps.py (MACOS=14.5: as on that version; CAPTURE=1: each operator captured)
	@$(MPSFORK) test-mps $(if $(MACOS),--macos $(MACOS)) $(if $(CAPTURE),--captured)

test-mps-more: ## run upstream's other tests that take the device
	@$(MPSFORK) test-mps --more $(if $(MACOS),--macos $(MACOS))

test-next:  ## say how far the series goes on another release, from that release's wheels (BASE=name of a folder in patches/releases/)
	@$(MPSFORK) test-next $(if $(BASE),--base $(BASE))

test-sanitized: ## run tests on a build that finds its own errors; SANITIZER=thread for data races
	@$(MPSFORK) test-sanitized $(if $(SANITIZER),--sanitizer $(SANITIZER))

test-entries: ## build the simulator at every entry of the series and run the entry's own tests there (ENTRY=name)
	@$(MPSFORK) test-entries $(if $(ENTRY),--entry $(ENTRY))

test-newer: ## run the capture tests on a base that does what newer ones do, and plant faults there (NOFAULTS=1: without)
	@$(MPSFORK) test-newer $(if $(NOFAULTS),--no-faults)

mutants:    ## plant small faults in the engine and the checks, one at a time, and see which suite notices (MUTANT=name, RESUME=1, PAGE=file)
	@$(MPSFORK) mutants $(if $(MUTANT),--mutant $(MUTANT)) $(if $(RESUME),--resume) $(if $(PAGE),--page $(PAGE))

wheel:      ## make torch's wheel with the series for a Mac, here (PYTHON=3.13); FROM_SOURCE=1: compile all of it, on a Mac (NO_DEVICE=1: one without a GPU); DRY_RUN=1: show what would be run
	@$(MPSFORK) wheel $(if $(FROM_SOURCE),--from-source) $(if $(PYTHON),--python $(PYTHON)) $(if $(NO_DEVICE),--no-device) $(if $(DRY_RUN),--dry-run) $(if $(JOBS),--jobs $(JOBS))

lint-overlay: ## compile the overlay with every warning an error, and run clang-tidy's bugprone checks on it
	@$(MPSFORK) lint-overlay

sweep:      ## capture and replay every operator, dtype and sample, compared with eager; LINK=1: linked; STATE=1: change metadata, not only values (DTYPE=float32); NOREPLAY=1: see that nothing is equal without
	@$(MPSFORK) sweep $(if $(LINK),--link) $(if $(STATE),--state) $(if $(DTYPE),--dtype $(DTYPE)) $(if $(PAGE),--page $(PAGE)) $(if $(NOREPLAY),--no-replay) $(if $(RESUME),--resume)

state:      ## run random programs that mix orders of use or change state, compared with eager (PROGRAMS=100000, SEED=n, PROCESSES=n)
	@$(MPSFORK) state $(if $(PROGRAMS),--programs $(PROGRAMS)) $(if $(SEED),--seed $(SEED)) $(if $(PROCESSES),--processes $(PROCESSES))

BENCH_OPTIONS = $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(RESUME),--resume) $(if $(NOREPLAY),--no-replay) $(if $(PAGE),--page $(PAGE))

bench:      ## time 100 configurations, eager and replayed (QUICK=1: ten; ONLY=name, RESUME=1, PAGE=file); DEVICE=cuda: with the stock torch of python3
ifeq ($(DEVICE),cuda)
	@python3 test/programs/benchmark/run.py --device cuda $(BENCH_OPTIONS)
else
	@$(MPSFORK) bench $(BENCH_OPTIONS)
endif

models:     ## capture and compile over 100 architectures of public libraries, compared with eager (QUICK=1: eight; ONLY=name, RESUME=1, PAGE=file)
	@$(MPSFORK) models $(if $(QUICK),--quick) $(if $(RESUME),--resume) $(if $(ONLY),--only "$(ONLY)") $(if $(PAGE),--page $(PAGE))

graph-caching: ## count what the executable cache keeps of matmul, convolution and attention
	@$(MPSFORK) graph-caching

fallback-bench: ## measure what operators without an MPS kernel cost
	@$(MPSFORK) fallback-bench

fallback-sync: ## count the requests for operators again (needs GH_TOKEN)
	@$(MPSFORK) fallback-sync

numbers:    ## write what the last `make demo` and `make test` showed into README.md
	@$(MPSFORK) numbers

release-notes: ## write the notes of the release: CHANGELOG.md's section, base, entries, wheels in dist/
	@$(MPSFORK) release-notes

pre-commit: ## have git run the linters before each commit in this clone
	@$(MPSFORK) setup
	@.venv/bin/pre-commit install

clean:      ## remove what was built; the checkout stays
	@$(MPSFORK) clean

help:       ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
