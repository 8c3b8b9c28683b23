.PHONY: help assets console licenses pictures build test race acceptance conformance providers services chaos orders approvals renewals zoo lint fuzz bench ci snapshot packages chart observe workflows site site-test recording

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

# The binary embeds files that are not in git: the script engine, zod, the web console and license texts.
# They are built here, and only when their sources are newer.
ASSETS  := internal/jsvm/assets/built/runtime.js
CONSOLE := internal/serve/console/built/index.html
LICENSES := internal/base/buildinfo/built/licenses.txt
NPM_CI  := npm ci --no-audit --no-fund --loglevel=error

build: $(ASSETS) $(CONSOLE) $(LICENSES) ## Build bin/toolyard, with everything it embeds
	go build -trimpath -o bin/toolyard ./cmd/toolyard
assets: $(ASSETS) ## Build the script engine and zod
console: $(CONSOLE) ## Build the web console
licenses: $(LICENSES) ## List the third-party components and collect their license texts

$(ASSETS): internal/jsvm/assets/node_modules/.package-lock.json $(wildcard internal/jsvm/assets/build/*.go) $(shell find internal/jsvm/runtime -type f)
	go run ./internal/jsvm/assets/build
	@touch $@
$(CONSOLE): console/node_modules/.package-lock.json console/index.html console/vite.config.ts $(shell find console/public console/scripts console/src -type f -not -path '*/api/schema/*')
	cd console && npm run build
	@touch $@
$(LICENSES): go.mod internal/jsvm/assets/node_modules/.package-lock.json console/node_modules/.package-lock.json $(wildcard internal/base/buildinfo/generate/*.go)
	go run ./internal/base/buildinfo/generate
%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo "npm is not in PATH: install Node.js with npm, then run make again" >&2; exit 1; }
	cd $* && $(NPM_CI)
	@touch $@

site: site/node_modules/.package-lock.json ## Build the documentation site in site/dist
	cd site && npm run --silent build
site-test: site ## Build the site, and check its links, its size, and its pages in Chromium
	go test -count=1 -timeout 10m ./acceptance -run '^TestSite' -v
recording: ## Run the commands of the README, and draw them as docs/pictures/recording.svg
	go test -count=1 -timeout 10m ./acceptance -run '^TestREADME$$' -args -recording
pictures: ## Take the screenshots for the documentation from a running demo
	go test -count=1 -v -run TestPictures ./acceptance -args -pictures
test: ## Run the unit tests
	go test -short ./...
race: ## Run all Go tests under the race detector
	go test -race -short ./...
acceptance: ## Test the built binary, also with the official clients
	go test -count=1 -v ./acceptance/...
conformance: ## Run the official MCP conformance suite, both eras
	go test -count=1 -v -run Conformance ./acceptance -all-scenarios
providers: ## Sign in with zitadel/oidc and Dex, and enter gates with their tokens
	go -C acceptance/providers test -count=1 -timeout 10m -tags dex -v ./...
services: ## Start PostgreSQL for the tests and print its settings
	@acceptance/services.sh
orders: ## Place orders while killing the server 300 times, and three replicas 300 times
	go test -timeout 60m -count 1 -v ./acceptance -run '^TestOrdersSurviveKills' -order-kills 300 -replica-order-kills 300
approvals: ## Use 1,000 approvals at two replicas at once while killing them
	go test -timeout 60m -count 1 -v ./acceptance -run '^TestApprovalsAreUsedOnceUnderKills$$' -approval-uses 1000
renewals: ## Let tokens of MCP servers expire at three replicas while killing them 100 times
	go test -timeout 60m -count 1 -v ./acceptance -run '^TestTokensAreRenewedOnceUnderKills$$' -renewal-calls 1000 -renewal-kills 100
chaos: ## Test money and limits on three replicas while killing them 1,000 times
	CHAOS_KILLS=1000 go test -count=1 -timeout 60m -v -run Chaos ./acceptance
zoo: ## Run 10,000 hostile MCP servers and kill 10,000 processes
	ZOO=long go test -count=1 -timeout 60m -v -run 'Zoo|Kill' ./upstream
lint: ## Run the linters
	go tool -modfile=tools/go.mod golangci-lint run ./...
fuzz: ## Fuzz every parser of untrusted input, 60 s each
	acceptance/fuzz.sh 60s
bench: ## Compare with the bare SDK and a plain HTTP handler
	go run ./bench
snapshot: ## Build all release artifacts in dist, without signing and publishing
	TAP_TOKEN= go run -modfile=tools/release/go.mod github.com/goreleaser/goreleaser/v2 release --snapshot --clean --skip=sign,publish
	$(MAKE) -s packages
packages: ## Make npm packages and the container image from the binaries in dist
	go run ./deploy/artifacts npm "$$(jq -r .version dist/metadata.json)" dist/npm dist/toolyard_*/toolyard*
	go run ./deploy/artifacts image "$$(jq -r .version dist/metadata.json)" dist/toolyard_image.tar dist/toolyard_linux_*/toolyard
chart: ## Render the Helm chart with the examples, and validate the result against the schemas of Kubernetes
	go build -modfile=tools/chart/go.mod -o bin/ helm.sh/helm/v4/cmd/helm github.com/yannh/kubeconform/cmd/kubeconform
	go test -count=1 ./deploy -run Chart -args -helm "$(CURDIR)/bin/helm" -kubeconform "$(CURDIR)/bin/kubeconform" \
		-swagger "$$(cd / && go mod download -json k8s.io/kubernetes@v1.34.2 | jq -r .Dir)/api/openapi-spec/swagger.json"
observe: ## Check the alert rules with promtool, and copy them and the dashboard to the chart
	cp deploy/observe/alerts.yaml deploy/observe/dashboard.json deploy/helm/toolyard/files/
	go build -modfile=tools/observe/go.mod -o bin/ github.com/prometheus/prometheus/cmd/promtool
	go test -count=1 ./deploy -run 'Alert|Observed|Dashboard' -args -promtool "$(CURDIR)/bin/promtool"
workflows: ## Check the GitHub workflows
	go run -modfile=tools/workflows/go.mod github.com/rhysd/actionlint/cmd/actionlint
ci: ## Run everything that must pass
	bash .ci/run
