# make help lists the targets.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory
# What is needed is checked first, and push comes before deploy, also with -j. Go uses all processors by itself.
.NOTPARALLEL:

# The cluster that run, install and uninstall use: empty for the local one, current for that of the kubeconfig's current
# context. Only the command line sets it: a variable of that name in the environment may be for something else.
ifeq ($(origin CLUSTER),environment)
override CLUSTER :=
endif
export CLUSTER
# The namespace of the API server of Llamas for deploy and bundle: empty for millwright-system, tutorial for the namespace default.
ifeq ($(origin FARM),environment)
override FARM :=
endif
export FARM

export CGO_ENABLED := $(shell . hack/go-env.sh && echo "$$CGO_ENABLED")
export GOFLAGS := $(shell . hack/go-env.sh && echo "$$GOFLAGS")
build_env := $(shell hack/build-env.sh)
# Without a repository (a source archive, or one of another user) there is no version.
VERSION := $(shell git describe --tags --always --dirty --match 'v[0-9]*' 2>/dev/null)
go_build := $(build_env) go build $(if $(VERSION),-ldflags "-X main.version=$(VERSION)",-buildvcs=false)
# For the image: without symbols, and without what differs from one checkout to the next.
go_build_small := $(build_env) go build -buildvcs=false -ldflags "-s -w $(if $(VERSION),-X main.version=$(VERSION))"

##@ Use

.PHONY: run
run: check-cluster build bin/leash $(if $(filter current,$(CLUSTER)),,bin/cluster) ## Run a control plane, the controllers and samples, until Ctrl-C (CLUSTER=current: the controllers and samples in your cluster)
	@exec hack/run.sh

.PHONY: cluster
cluster: bin/cluster ## Run only the control plane, until Ctrl-C: for controllers that you start yourself, for instance in a debugger
	@exec bin/cluster up --dir .local/cluster --simulated-nodes 1

.PHONY: cluster-node
cluster-node: check-go ## Run the control plane with a real node, on which containers run: on Linux as root, see hack/cluster/README.md
	@hack/cluster/build.sh node
	@exec bin/cluster up --dir .local/cluster --node

.PHONY: install
install: reach-cluster $(if $(filter current,$(CLUSTER)),,bin/cluster) ## Install the CRDs into the local cluster, or update them (CLUSTER=current: into yours)
	@exec hack/install.sh

.PHONY: uninstall
uninstall: reach-cluster $(if $(filter current,$(CLUSTER)),,bin/cluster) ## Delete the CRDs, and with them all objects of our kinds (CLUSTER=current: from yours)
	@exec hack/uninstall.sh

##@ Ship

# The image, as in IMG=example.com/team/millwright:v1.0.0.
IMG ?= millwright:$(or $(VERSION),dev)
# Each platform is compiled by itself.
PLATFORMS ?= linux/amd64 linux/arm64
# What bundle writes.
BUNDLE ?= bin/millwright.yaml
image_flags = --platforms "$$(echo $(PLATFORMS) | tr ' ' ,)" --version "$(VERSION)" --created "$$(git log -1 --format=%ct 2>/dev/null || echo 0)" $(IMG)

.PHONY: image
image: image-context ## Pack the image IMG for amd64 and arm64 into bin/image/image.tar, without a container engine (PLATFORMS=linux/amd64: for one)
	@go run ./hack/image --output bin/image/image.tar $(image_flags)

.PHONY: push
push: image-context ## Push the image IMG to its registry, with the credentials of docker login
	@go run ./hack/image --push $(image_flags)

.PHONY: docker-build
docker-build: image ## The same as image: docker is not needed

.PHONY: docker-push
docker-push: push ## The same as push: docker is not needed

.PHONY: image-context
image-context: check-go ## Build what the Dockerfile copies; after it, docker build . and buildah bud . need no network
	@for platform in $(PLATFORMS); do \
	  echo "Building the operator for $$platform"; \
	  GOOS=$${platform%/*} GOARCH=$${platform#*/} $(go_build_small) -o bin/image/$${platform%/*}_$${platform#*/}/millwright ./cmd/millwright || exit; \
	done
	@go run ./hack/image certificates >bin/image/ca-certificates.crt.new
	@mv bin/image/ca-certificates.crt.new bin/image/ca-certificates.crt

.PHONY: deploy
deploy: reach-cluster $(if $(filter current,$(CLUSTER)),,bin/cluster reach-node image) ## Install the operator with the image IMG into the local cluster with a node (CLUSTER=current: into yours; FARM=tutorial: with Llamas as in their tutorial)
	@IMG="$(IMG)" exec hack/deploy.sh deploy

.PHONY: undeploy
undeploy: reach-cluster $(if $(filter current,$(CLUSTER)),,bin/cluster) ## Remove what deploy has installed, but not the CRDs and the objects of users
	@exec hack/deploy.sh undeploy

.PHONY: bundle
bundle: bin/cluster ## Write all that deploy applies to one file, for IMG (BUNDLE=bin/millwright.yaml)
	@CLUSTER= IMG="$(IMG)" BUNDLE="$(BUNDLE)" exec hack/deploy.sh bundle

.PHONY: build-installer
build-installer: bundle ## The same as bundle

##@ Develop

# What test runs: the parts of hack/test.sh. RACE=yes runs more of them with the race detector than the unit tests.
PARTS ?= unit cluster chart integration perturbation$(if $(RACE), perturbation-race)

.PHONY: build
build: check-go ## Build bin/millwright, the operator
	$(go_build) -o bin/millwright ./cmd/millwright

.PHONY: test
test: bin/cluster ## Run the tests, and print the slowest (RACE=yes: all with the race detector; PARTS="unit chart": some, see hack/test.sh)
	@exec hack/test.sh $(PARTS)

.PHONY: test-kind
test-kind: bin/cluster ## Run the tests of one kind (KIND=helloapp)
	@[ -n "$(KIND)" ] || { echo "KIND is missing, as in: make test-kind KIND=helloapp" >&2; exit 2; }
	@exec hack/test.sh unit integration perturbation

.PHONY: test-failed
test-failed: bin/cluster ## Run the tests that failed last
	@exec hack/test-failed.sh

.PHONY: test-all
test-all: bin/cluster ## Run everything there is, for hours, before a release: on Linux as root, on an idle machine
	@exec hack/test-all.sh

.PHONY: test-unit
test-unit: check-go ## Run the tests that need no cluster
	@exec hack/test.sh unit

.PHONY: test-integration
test-integration: bin/cluster ## Run the tests that need a cluster
	@exec hack/test.sh integration

.PHONY: test-chart
test-chart: bin/cluster ## Run the tests of the Helm chart: the first time they compile Helm
	@exec hack/test.sh chart

.PHONY: test-node
test-node: bin/cluster ## Run the tests of the local cluster's real node: on Linux as root; it installs containerd and runc by apt if they are missing
	@exec hack/test.sh node

.PHONY: test-memory
test-memory: bin/cluster ## Run the tests of the memory limits in the manifests, minutes each: on Linux as root, on an idle machine
	@exec hack/test.sh memory

.PHONY: e2e
e2e: bin/cluster ## Run the end-to-end tests, with the image and the manifests, on a real node: needs what test-node needs
	@exec hack/test.sh e2e

.PHONY: perturb
perturb: bin/cluster ## Disturb the controllers at every write, by every pattern (kill, stale cache, late write, ...), with the race detector; make test runs some
	@exec hack/test.sh perturbation-all

.PHONY: bench
bench: build bin/bench bin/leash bin/cluster ## Measure speed and memory, compared with a bare client (BENCH_FLAGS=--quick: in minutes, BENCH_FLAGS=--help: all flags)
	@exec bin/bench $(BENCH_FLAGS)

.PHONY: manifests
manifests: check-go ## Generate CRDs, roles, other manifests and the Helm chart from the types and markers
	@exec hack/update-manifests.sh

.PHONY: generate
generate: check-go ## Generate clients, deep copies and OpenAPI models from pkg/apis, and all that make manifests generates
	@exec hack/update-codegen.sh

.PHONY: verify
verify: bin/cluster ## Run the static checks, in half a minute: generated files, imports, words, vet, ...
	@exec hack/verify.sh

.PHONY: fmt
fmt: ## Format the Go files
	gofmt -l -w cmd hack pkg

.PHONY: vet
vet: check-go ## Run go vet on all modules
	@exec hack/verify.sh vet

.PHONY: lint
lint: check-go ## Run the linters alone: vet, staticcheck, imports, style
	@exec hack/verify.sh vet staticcheck imports style

.PHONY: clean
clean: ## Remove what was built, and the state of the local cluster
	@exec hack/clean.sh

##@ Parts

.PHONY: bin/cluster
bin/cluster: check-go ## Build the local control plane, and bin/kubectl: the first time it takes minutes
	@exec hack/cluster/build.sh

.PHONY: bin/leash
bin/leash: check-go
	@go build -buildvcs=false -o $@ ./hack/leash

.PHONY: bin/bench
bin/bench: check-go
	@go build -buildvcs=false -o $@ ./hack/bench

.PHONY: check-cluster
check-cluster:
	@exec hack/check-cluster.sh name

.PHONY: reach-cluster
reach-cluster:
	@exec hack/check-cluster.sh answer

.PHONY: reach-node
reach-node:
	@exec hack/check-cluster.sh node

.PHONY: check-go
check-go:
	@exec hack/require.sh go

.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9\/-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' Makefile
