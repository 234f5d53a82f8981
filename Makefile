# Each target is one call of the fork tool. `scripts/mpsfork --help` lists all commands.
MPSFORK := scripts/mpsfork

.DEFAULT_GOAL := help
.PHONY: setup demo test wheel bench fetch apply refresh verify simulator export rebase mutants clean help

##@ Use

setup:      ## install missing packages and make the virtual environment
	@$(MPSFORK) setup

demo:       ## capture and replay real models, and compare them with eager
	@$(MPSFORK) demo

test:       ## test that it works here, or run every suite [ALL]
	@$(MPSFORK) test $(if $(ALL),--all)

wheel:      ## make the wheel for a Mac [PYTHON JOBS]
	@$(MPSFORK) wheel $(if $(PYTHON),--python $(PYTHON)) $(if $(JOBS),--jobs $(JOBS))

BENCH_OPTIONS = $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(NOREPLAY),--no-replay) $(if $(PAGE),--page $(PAGE))

bench:      ## time 100 configurations [QUICK ONLY PAGE NOREPLAY DEVICE]
ifeq ($(DEVICE),cuda)
	@python3 test/programs/benchmark/run.py --device cuda $(BENCH_OPTIONS)
else
	@$(MPSFORK) bench $(BENCH_OPTIONS)
endif

##@ Change

fetch:      ## get PyTorch's source into build/pytorch
	@$(MPSFORK) fetch

apply:      ## apply the series to build/pytorch, one commit per patch
	@$(MPSFORK) apply

refresh:    ## take the commits back into patches/ and aten_mps_overlay/
	@$(MPSFORK) refresh

verify:     ## check that every patch applies and keeps the rules
	@$(MPSFORK) verify

simulator:  ## build the Metal simulator [TESTS BASE_ONLY]
	@$(MPSFORK) simulator $(if $(TESTS),--tests) $(if $(BASE_ONLY),--base-only)

export:     ## write the series as mails to build/export [STACK GHSTACK AUTHOR]
	@$(MPSFORK) export $(if $(STACK),--stack $(STACK)) $(if $(GHSTACK),--ghstack) $(if $(AUTHOR),--author "$(AUTHOR)")

rebase:     ## move the series to another PyTorch [ONTO CONTINUE SKIP ABORT]
	@$(MPSFORK) rebase $(if $(ONTO),--onto $(ONTO)) $(if $(CONTINUE),--continue) $(if $(SKIP),--skip) $(if $(ABORT),--abort)

##@ Maintain

mutants:    ## plant faults, and report the suites that notice them [MUTANT RESUME]
	@$(MPSFORK) mutants $(if $(MUTANT),--mutant $(MUTANT)) $(if $(RESUME),--resume)

clean:      ## remove all builds; keep the checkout
	@$(MPSFORK) clean

help:       ## list the targets
	@awk -F ':.*## ' '/^##@ /{printf "%s\n", substr($$0, 5)} /^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables are in brackets. Some are switches (make test ALL=1), others take a value (make wheel PYTHON=3.13)."
	@echo "All other commands and all options: scripts/mpsfork --help"
