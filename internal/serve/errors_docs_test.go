package serve_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
)

var update = flag.Bool("update", false, "write docs/ERRORS.md")

const errorsIntro = `# Error codes

Generated from the code by ` + "`go test ./internal/serve -run ErrorTable -update`" + `. Do not edit.

Each code has one meaning. Results, JSON-RPC errors and HTTP API problem documents all carry the same data: ` + "`error`" + ` (the
code), ` + "`message`, `retryable` and `correctable`" + `. Where they apply, they also carry ` + "`issues`, `retryAfterMs`" + `,
` + "`requiredCapabilities`, `requiredScopes`, `approval` and `expiresAt`" + `. In a result, the data is in
` + "`_meta[\"dev.toolyard/error\"]`" + `.

- **retryable**: nothing ran, so you can safely send the same request again later, and it may succeed. An error with
  ` + "`retryAfterMs`" + ` is always retryable, whatever its code.
- **correctable**: the request can succeed with different arguments or a different name.
- **HTTP** is the status code of the HTTP API. 200 means that the tool itself returned the failure as its result.
- **JSON-RPC** is the error code at a gate with ` + "`errors: protocol`" + `. By default (` + "`errors: result`" + `), MCP clients receive a
  result with ` + "`isError`" + ` instead.

| code | in Go | meaning | HTTP | JSON-RPC | retryable | correctable |
|---|---|---|---|---|---|---|
`

// definition is a Code constant and its comment.
type definition struct {
	code          toolyard.Code
	name, meaning string
}

// definitions returns the Code constants in a file.
func definitions(t *testing.T, file string) (found []definition) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			v := s.(*ast.ValueSpec)
			id, ok := v.Type.(*ast.Ident)
			if other, isOther := v.Type.(*ast.SelectorExpr); isOther { // the type is declared in another package
				id, ok = other.Sel, true
			}
			if ok && id.Name == "Code" {
				code, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				found = append(found, definition{toolyard.Code(code), v.Names[0].Name, strings.TrimSpace(v.Comment.Text())})
			}
		}
	}
	return found
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

func TestErrorTableIsCurrent(t *testing.T) {
	table := errorsIntro
	for _, d := range definitions(t, "../../error.go") {
		if d.meaning == "" || !d.code.Predefined() {
			t.Errorf("%s has no comment in error.go, or is missing in codes", d.code)
		}
		table += fmt.Sprintf("| `%s` | `%s` | %s | %d | %d | %s | %s |\n", d.code, d.name, d.meaning,
			httpapi.Status(d.code), mcpserver.ErrorNumber(gates.ErrorsAsProtocol, d.code), yes(d.code.Retryable()), yes(d.code.Correctable()))
	}
	table += "\nSome codes belong to a single feature and have no constant in the Go packages:\n\n| code | meaning | HTTP |\n|---|---|---|\n"
	for _, d := range definitions(t, "../trust/serverauth/person.go") {
		table += fmt.Sprintf("| `%s` | %s | %d |\n", d.code, d.meaning, httpapi.Status(d.code))
	}
	table += "\nIf a recorded call has no error, it has one of these codes:\n\n| code | meaning |\n|---|---|\n"
	for _, d := range definitions(t, "../../record.go") {
		table += fmt.Sprintf("| `%s` | %s |\n", d.code, d.meaning)
	}
	const file = "../../docs/ERRORS.md"
	if *update {
		if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != table {
		t.Errorf("docs/ERRORS.md is stale (%v): run go test ./internal/serve -run ErrorTable -update", err)
	}
	if contract, err := os.ReadFile("../../docs/CONTRACT.md"); err != nil || !strings.Contains(string(contract), "(ERRORS.md)") {
		t.Errorf("docs/CONTRACT.md does not link to the table: %v", err)
	}
}
