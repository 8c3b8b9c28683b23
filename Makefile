.PHONY: help assets console pictures build test race acceptance conformance services chaos zoo lint fuzz bench ci

help: ## Show this help
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 14
assets: ## Build what the binary embeds: the script engine and zod
	cd internal/jsvm/assets && npm ci --no-audit --no-fund --loglevel=error
	go run ./internal/jsvm/assets/build
console: ## Build the web console that the binary embeds
	cd console && npm ci --no-audit --no-fund --loglevel=error && npm run build
pictures: ## Make the screenshots of the documentation from a running demo
	go test -count=1 -v -run TestPictures ./acceptance -args -pictures
build: ## Build bin/toolyard
	go build -trimpath -o bin/toolyard ./cmd/toolyard
test: ## Run the unit tests
	go test -short ./...
race: ## Run all Go tests under the race detector
	go test -race -short ./...
acceptance: ## Drive the built binary, official clients included
	go test -count=1 -v ./acceptance/...
conformance: ## Run the official MCP conformance suite, both eras
	go test -count=1 -v -run Conformance ./acceptance
services: ## Start a PostgreSQL for the tests and print how to tell them
	@acceptance/services.sh
chaos: ## Money and limits on three replicas, under 1,000 kills
	CHAOS_KILLS=1000 go test -count=1 -timeout 60m -v -run Chaos ./acceptance
zoo: ## 10,000 runs against hostile MCP servers, and 10,000 kills
	ZOO=long go test -count=1 -timeout 60m -v -run 'Zoo|Kill' ./upstream
lint: ## Check style and mistakes
	go tool -modfile=tools/go.mod golangci-lint run ./...
fuzz: ## Fuzz every parser of strangers' bytes, 60 s each
	acceptance/fuzz.sh 60s
bench: ## Measure beside the bare SDK and a plain handler
	go run ./bench
ci: ## Everything that must pass
	bash .ci/run
