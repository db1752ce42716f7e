# Everything that is done with this project. `make` alone explains itself.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export GOTOOLCHAIN ?= local
export GOFLAGS ?= -buildvcs=false

VERSION ?= v0.1.0
REPLICAS ?= 3
KEEP ?=
QUICK ?=
PACKAGES ?= ./...
TESTFLAGS ?=
SCALE ?= 0.1
FUZZTIME ?= 1m
TARGETS ?=
STANDIN ?=
DECLARE ?=
NAMES ?=

CONTROLLER_GEN = $$(hack/tool.sh tools controller-gen sigs.k8s.io/controller-tools/cmd/controller-gen)
GOLANGCI_LINT = $$(hack/tool.sh lint golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint)

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "  Variables: REPLICAS=$(REPLICAS) and KEEP=1 for demo, PACKAGES=$(PACKAGES) and TESTFLAGS= for test, SCALE=$(SCALE) for payload, FUZZTIME=$(FUZZTIME) for fuzz"
	@echo "  Needed: Go as go.mod says, gcc, make, git. The first demo or test builds the control plane once (about 12 minutes)."

.PHONY: build
build: out/windows-machine-operator out/wmcb.exe ## Build the operator and the agent into out/

.PHONY: out/windows-machine-operator
out/windows-machine-operator:
	@mkdir -p out
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $@ .

.PHONY: out/wmcb.exe
out/wmcb.exe:
	@mkdir -p out
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $@ ./cmd/wmcb

.PHONY: payload
payload: ## Build kubelet & co. for Windows from source, pack them (6 minutes once; DECLARE=file, STANDIN=1)
	go run ./hack/payload $(if $(STANDIN),stand-in --scale $(SCALE),build $(if $(DECLARE),--declare $(DECLARE))) --out out/payload

.PHONY: repro
repro: ## Build the agent and the payload twice and compare their SHA-256 (12 minutes; NAMES="..." for some)
	go run ./hack/payload repro $(NAMES)

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager and kubectl once (about 12 minutes)
	@go run ./test/cmd/controlplane build

.PHONY: demo
demo: controlplane out/windows-machine-operator out/wmcb.exe ## Show a MachineSet become Ready nodes (REPLICAS=50, KEEP=1)
	@mkdir -p out && go build -o out/demo ./test/cmd/demo
	@out/demo --replicas $(REPLICAS) $(if $(KEEP),--keep)

.PHONY: demo-vanilla
demo-vanilla: controlplane out/windows-machine-operator out/wmcb.exe ## Show a machine join a cluster that was put together by hand (KEEP=1)
	@mkdir -p out && go build -o out/demo ./test/cmd/demo
	@out/demo vanilla $(if $(KEEP),--keep)

.PHONY: test
test: controlplane ## Run all tests, with the race detector, in random order
	@# The chaos suite measures patience: it runs behind the others, with the machine to itself.
	@t=(go test -json -race -shuffle=on -timeout 25m $(TESTFLAGS)); list=$$(go list -e $(PACKAGES)); \
	chaos=$$(grep '/test/chaos$$' <<<"$$list" || true); rest=$$(grep -v '/test/chaos$$' <<<"$$list" || true); \
	go run ./test/cmd/testsummary $${rest:+-- "$${t[@]}" $$rest} $${chaos:+-- "$${t[@]}" $$chaos}

.PHONY: test-chaos
test-chaos: controlplane ## Run the crash matrix and the storm (about 6 minutes; STORM_SEED=n repeats a storm)
	@go test -race -shuffle=on -count=1 -timeout 15m $(TESTFLAGS) -v ./test/chaos | grep -vE '^(===|PASS|ok)|--- PASS'

.PHONY: wine
wine: ## Prepare machines of Wine once: Wine 10 in a root of its own, shims, a template disk (about 3 minutes, root only)
	@go run ./test/wine/setup

.PHONY: e2e
e2e: controlplane payload out/windows-machine-operator out/wmcb.exe wine ## Real kubelets on machines of Wine: MachineSet to Ready, kill, reboot, pull the plug, remove (about 5 minutes, root only)
	test/wine/e2e.sh $(TESTFLAGS)

.PHONY: lint
lint: ## Lint, with the import arrows of docs/architecture.md
	$(GOLANGCI_LINT) run ./...
	GOOS=windows $(GOLANGCI_LINT) run ./cmd/wmcb/... ./pkg/agent/... ./test/windows/...

.PHONY: generate
generate: ## Write all generated files
	$(CONTROLLER_GEN) object paths=./pkg/apis/...
	$(CONTROLLER_GEN) crd paths=./pkg/apis/... output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=windows-machine-operator paths=. paths=./controllers/... paths=./pkg/ticket/... paths=./pkg/facts/... output:rbac:dir=config/rbac
	go run ./hack/evidence

.PHONY: verify
verify: ## Check generated files, documents, and that the product links no test code
	hack/verify-docs.sh
	hack/verify-imports.sh .
	hack/verify-generated.sh
	hack/verify-kubeletfields.sh
	hack/verify-ansible.sh

.PHONY: bench
bench: controlplane out/windows-machine-operator out/wmcb.exe ## Measure what configuring costs: JSON and tables (about 12 minutes; QUICK=1 for one; as root with wmcb.exe under Wine)
	@mkdir -p out && go build -o out/ ./test/cmd/bench ./test/wine/measure && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o out/wmcb ./cmd/wmcb
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) --no-print-directory wine || echo "bench: wmcb.exe is not started" >&2; fi
	@out/bench --measure out/measure $(if $(QUICK),--quick)
	go test -run '^$$' -bench . -benchmem $(if $(QUICK),-benchtime 50ms,-benchtime 500ms) ./pkg/csr ./pkg/ignition ./pkg/plan ./pkg/planner

.PHONY: fuzz
fuzz: ## Fuzz every parser and decision (FUZZTIME=1m each; TARGETS=pkg/plan/FuzzParse for some)
	hack/fuzz.sh $(FUZZTIME) $(TARGETS)

.PHONY: cases
cases: ## List the public cases and the tests that are named after them
	@go run ./test/cmd/cases
