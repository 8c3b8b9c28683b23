package toolyard_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/toolyard/toolyard"

// goPackage is the output of go list for one package.
type goPackage struct {
	ImportPath string
	Dir        string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) (list []goPackage) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for dec.More() {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// imports lists the packages of this module that each package may import. Imports point toward the
// root; a package with no entry may import only the root.
var imports = map[string][]string{
	"":                                  {"/internal/trust/jsonschema", "/internal/trust/untrusted", "/internal/base/ident", "/internal/base/jsonobject", "/internal/base/spelling", "/internal/base/tracecontext"},
	"/internal/trust/jsonschema":        {"/internal/trust/untrusted"},
	"/internal/serve/gates":             {"", "/internal/base/ident", "/internal/base/spelling", "/internal/sources/catalog", "/internal/sources/toolterms", "/internal/trust/untrusted", "/internal/trust/taint"},
	"/internal/sources/toolterms":       {"", "/internal/base/ident", "/internal/base/jsonobject"},
	"/internal/sources/lint":            {"", "/internal/base/spelling"},
	"/internal/callpath":                {"", "/internal/admission", "/internal/base/jsonobject", "/internal/base/stack", "/internal/callpath/rules", "/internal/trust/seal", "/internal/trust/taint"},
	"/internal/callpath/rules":          {"", "/internal/base/jsonobject", "/internal/trust/jsonschema", "/internal/trust/untrusted"},
	"/toolyardtest":                     {"", "/internal/callpath"},
	"/toolyardtest/packtest":            {"", "/yard"},
	"/agent/model":                      {"/internal/base/jsonobject", "/internal/trust/framing", "/internal/trust/outbound", "/internal/trust/strictjson", "/internal/trust/untrusted"},
	"/agent":                            {"", "/agent/model", "/internal/base/jsonobject", "/internal/base/spelling", "/internal/base/stack", "/internal/trust/taint", "/internal/trust/untrusted"},
	"/acceptance/fakemarkets":           {},
	"/acceptance/fakehome":              {},
	"/acceptance/fakemodel":             {"/internal/config/yamltree"},
	"/acceptance/fakemodel/serve":       {"/acceptance/fakemodel"},
	"/packs/homeassistant/hass":         {},
	"/packs/homeassistant":              {"", "/yard", "/packs/homeassistant/hass", "/packs/similar"},
	"/internal/sources/provider":        {"", "/internal/base/spelling", "/internal/trust/outbound", "/internal/trust/strictjson"},
	"/packs/ratelimit":                  {"/internal/trust/outbound"},
	"/packs/similar":                    {},
	"/packs/markets":                    {"", "/yard", "/packs/ratelimit", "/internal/sources/provider", "/internal/trust/outbound", "/internal/trust/strictjson", "/internal/trust/untrusted"},
	"/internal/trust/identity":          {"", "/internal/serve/gates", "/internal/base/ident"},
	"/internal/trust/accesstoken":       {"", "/internal/trust/identity", "/internal/trust/outbound", "/internal/trust/strictjson"},
	"/internal/trust/signin":            {"", "/internal/trust/accesstoken", "/internal/trust/outbound", "/internal/trust/strictjson"},
	"/internal/trust/certtest":          {},
	"/internal/trust/issuertest":        {},
	"/internal/trust/oauthclient":       {"/internal/trust/outbound", "/internal/trust/strictjson"},
	"/internal/trust/oauthtest":         {},
	"/internal/trust/serverauth":        {"", "/internal/trust/identity", "/internal/trust/oauthclient", "/internal/trust/seal"},
	"/internal/base/stack":              {},
	"/internal/base/leaktest":           {},
	"/internal/admission/admissiontest": {"", "/internal/admission", "/internal/admission/ledger"},
	"/internal/demo":                    {"", "/agent/model", "/acceptance/fakehome", "/acceptance/fakemarkets", "/internal/admission/ledger", "/internal/base/ident"},
	"/internal/store":                   {"", "/internal/trust/identity", "/internal/trust/serverauth", "/internal/admission/ledger", "/internal/base/backoff", "/internal/base/ident"},
	"/internal/admission":               {"", "/internal/admission/ledger", "/internal/base/backoff"},
	"/internal/store/record":            {"", "/internal/store", "/internal/trust/strictjson", "/internal/trust/untrusted", "/internal/base/jsonobject", "/internal/admission", "/internal/admission/ledger"},
	"/internal/serve":                   {"", "/internal/base/tracecontext"},
	"/internal/serve/httpapi":           {"", "/agent", "/internal/base/jsonobject", "/internal/config", "/internal/control/auditlog", "/internal/control/export", "/internal/trust/accesstoken", "/internal/trust/identity", "/internal/trust/signin", "/internal/control/live", "/internal/control/search", "/internal/store", "/internal/trust/inbound", "/internal/trust/seal", "/internal/trust/strictjson", "/internal/trust/untrusted", "/internal/admission/ledger", "/internal/serve", "/internal/serve/gates", "/internal/sources/catalog", "/internal/sources/toolterms", "/internal/base/ident"},
	"/internal/control/live":            {"", "/internal/store"},
	"/internal/control/approvals":       {"", "/internal/admission", "/internal/admission/ledger", "/internal/callpath", "/internal/serve/httpapi", "/internal/store"},
	"/internal/serve/console":           {},
	"/internal/store/pgtest":            {},
	"/internal/control/auditlog":        {"/internal/store"},
	"/internal/control/search":          {"/internal/trust/strictjson", "/internal/trust/untrusted"},
	"/internal/control/export":          {"", "/internal/serve/gates", "/internal/serve/offer"},
	"/internal/control/registry":        {"", "/internal/trust/inbound", "/internal/trust/untrusted"},
	"/packs/basics":                     {""},
	"/packs/trading/market":             {},
	"/packs/trading/marketdata":         {"", "/packs/similar", "/packs/trading/market"},
	"/packs/trading/bars":               {"", "/packs/trading/market"},
	"/packs/trading/cryptopanic":        {"", "/packs/trading/market"},
	"/packs/trading/hyperliquid":        {"", "/packs/ratelimit", "/packs/trading/market"},
	"/packs/trading/engine":             {"/packs/trading/market"},
	"/packs/trading/paper":              {"", "/yard", "/packs/trading/market"},
	"/packs/trading/market/markettest":  {"/packs/trading/market"},
	"/packs/trading/account":            {"", "/yard", "/packs/trading/engine", "/packs/trading/market"},
	"/packs/trading/introspection":      {"", "/packs/trading/account", "/packs/trading/engine", "/packs/trading/market"},
	"/packs/trading/backtest":           {"", "/packs/trading/engine", "/packs/trading/market"},
	"/packs/trading":                    {"", "/yard", "/packs/trading/account", "/packs/trading/backtest", "/packs/trading/bars", "/packs/trading/cryptopanic", "/packs/trading/engine", "/packs/trading/hyperliquid", "/packs/trading/introspection", "/packs/trading/market", "/packs/trading/marketdata", "/packs/trading/paper"},
	"/internal/trust/framing":           {},
	"/internal/trust/inbound":           {"/internal/trust/safefile", "/internal/trust/untrusted"},
	"/internal/trust/outbound":          {"/internal/trust/untrusted"},
	"/internal/trust/paramheader":       {"/internal/trust/strictjson"},
	"/internal/trust/safefile":          {},
	"/internal/trust/seal":              {},
	"/internal/trust/strictjson":        {},
	"/internal/trust/subprocess":        {},
	"/internal/trust/taint":             {"", "/internal/base/jsonobject"},
	"/internal/trust/untrusted":         {"/internal/trust/strictjson"},
	"/internal/serve/offer":             {"", "/internal/base/jsonobject", "/internal/base/spelling", "/internal/control/search", "/internal/serve/gates", "/internal/trust/strictjson", "/internal/trust/untrusted"},
	"/internal/serve/mcpserver":         {"", "/internal/serve", "/internal/serve/offer", "/internal/trust/inbound", "/internal/trust/paramheader", "/internal/trust/seal", "/internal/trust/strictjson", "/internal/trust/untrusted", "/internal/base/ident", "/internal/base/jsonobject", "/internal/base/spelling", "/internal/serve/gates", "/internal/sources/catalog", "/internal/base/tracecontext"},
	"/internal/jsvm/assets":             {},
	"/internal/jsvm":                    {"/internal/base/stack", "/internal/jsvm/assets", "/internal/trust/safefile", "/internal/trust/subprocess", "/internal/trust/untrusted"},
	"/internal/sources/watch":           {"/internal/trust/safefile"},
	"/script":                           {"", "/internal/jsvm/assets", "/internal/jsvm", "/internal/sources/watch", "/internal/trust/outbound", "/internal/trust/safefile", "/internal/trust/untrusted", "/internal/base/spelling", "/internal/sources/lint", "/internal/trust/jsonschema", "/internal/trust/taint", "/internal/base/ident", "/internal/base/jsonobject"},
	"/internal/config":                  {"", "/internal/trust/untrusted", "/internal/base/ident", "/internal/base/spelling", "/internal/serve/gates", "/internal/config/yamltree", "/internal/sources/provider", "/internal/trust/jsonschema", "/internal/callpath/rules", "/internal/trust/accesstoken", "/internal/trust/secret"},
	"/internal/config/settings":         {"", "/internal/admission", "/internal/admission/ledger", "/internal/config", "/internal/sources/pin", "/internal/store", "/internal/base/spelling", "/internal/serve/gates", "/internal/sources/catalog", "/internal/sources/toolterms", "/internal/base/ident", "/internal/trust/taint", "/internal/callpath/rules"},
	"/internal/control":                 {"", "/upstream", "/internal/admission", "/internal/config", "/internal/config/settings", "/internal/control/registry", "/internal/serve", "/internal/serve/httpapi", "/internal/serve/mcpserver", "/internal/store", "/internal/base/spelling", "/internal/serve/gates", "/internal/sources/catalog", "/internal/admission/ledger", "/internal/callpath/rules"},
	"/internal/sources/pin":             {"/internal/trust/safefile", "/internal/trust/strictjson", "/internal/base/backoff"},
	"/internal/trust/secret":            {"", "/internal/trust/safefile", "/internal/trust/outbound", "/internal/trust/strictjson", "/internal/trust/subprocess", "/internal/base/spelling"},
	"/internal/config/clientconfig":     {"", "/internal/trust/untrusted", "/internal/base/ident", "/internal/base/spelling", "/internal/config/yamltree"},
	"/internal/config/yamltree":         {},
	"/upstream":                         {"", "/internal/sources/pin", "/internal/trust/framing", "/internal/trust/outbound", "/internal/trust/paramheader", "/internal/trust/strictjson", "/internal/trust/subprocess", "/internal/trust/untrusted", "/internal/base/backoff", "/internal/base/ident", "/internal/base/jsonobject", "/internal/base/spelling"},
	"/yard":                             {"", "/agent", "/agent/model", "/internal/callpath/rules", "/internal/trust/seal", "/internal/trust/taint", "/internal/trust/untrusted", "/internal/trust/outbound", "/internal/sources/provider", "/internal/callpath", "/script", "/upstream", "/internal/serve", "/internal/serve/httpapi", "/internal/sources/catalog", "/internal/config", "/internal/config/settings", "/internal/serve/console", "/internal/admission", "/internal/trust/identity", "/internal/trust/accesstoken", "/internal/trust/oauthclient", "/internal/trust/serverauth", "/internal/trust/signin", "/internal/control", "/internal/control/live", "/internal/control/export", "/internal/serve/mcpserver", "/internal/serve/offer", "/internal/sources/pin", "/internal/store/record", "/internal/trust/secret", "/internal/store", "/internal/telemetry", "/internal/trust/inbound", "/internal/trust/safefile", "/internal/admission/ledger", "/internal/base/backoff", "/internal/base/spelling", "/internal/serve/gates", "/internal/base/ident", "/internal/control/approvals", "/internal/base/buildinfo"},
	"/cli":                              {"", "/agent", "/agent/model", "/yard", "/internal/demo", "/script", "/upstream", "/internal/config", "/internal/config/clientconfig", "/internal/config/settings", "/internal/trust/identity", "/internal/trust/accesstoken", "/internal/trust/secret", "/internal/store", "/internal/telemetry", "/internal/trust/inbound", "/internal/trust/outbound", "/internal/trust/strictjson", "/internal/trust/subprocess", "/internal/trust/untrusted", "/internal/admission/ledger", "/internal/base/ident", "/internal/base/spelling", "/internal/sources/lint", "/internal/trust/safefile", "/internal/serve/gates", "/internal/control/approvals", "/internal/control/auditlog", "/internal/serve/httpapi", "/internal/base/buildinfo"},
	"/cmd/toolyard":                     {"/cli", "/yard", "/packs/basics", "/packs/homeassistant", "/packs/markets", "/packs/trading"},
	"/acceptance/testyard":              {"", "/cli", "/yard", "/packs/homeassistant", "/packs/markets"},
	"/acceptance/conformanceclient":     {"", "/upstream", "/internal/store", "/internal/trust/oauthclient", "/internal/trust/serverauth"},
	"/bench":                            {"", "/acceptance/fakemodel", "/script", "/upstream", "/yard", "/internal/control/export", "/internal/control/search", "/internal/serve/gates", "/internal/serve/offer", "/internal/sources/catalog", "/internal/admission", "/internal/trust/identity", "/internal/store/pgtest", "/internal/store/record", "/internal/store", "/internal/admission/ledger", "/internal/base/ident"},
	"/examples/greet":                   {"", "/cli", "/yard"},
	"/examples/workdays":                {"", "/cli", "/yard"},
	"/examples/home":                    {"/acceptance/fakehome"},
	"/examples/embed":                   {"", "/yard"},
	"/internal/sources/catalog":         {"", "/internal/base/backoff"},
	"/internal/base/buildinfo":          {},
	"/acceptance/defaultseccomp":        {},
	"/deploy/artifacts":                 {"/internal/base/buildinfo"},
	"/internal/base/buildinfo/generate": {"/internal/base/buildinfo"},
}

// cages lists the packages that may import a third-party module.
var cages = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk":   {"/internal/serve/mcpserver", "/bench", "/acceptance/fakemcp"},
	"github.com/modelcontextprotocol/registry": {"/internal/control/registry"},
	"github.com/goccy/go-yaml":                 {"/internal/config/yamltree"},
	"github.com/prometheus/client_golang":      {"/internal/telemetry"},
	"go.opentelemetry.io/otel":                 {"/internal/telemetry"},
	"github.com/fsnotify/fsnotify":             {"/yard", "/internal/sources/watch"},
	"github.com/bmatcuk/doublestar":            {"/internal/sources/watch"},
	"github.com/tetratelabs/wazero":            {"/internal/jsvm"},
	"github.com/evanw/esbuild":                 {"/internal/jsvm", "/internal/jsvm/assets/build"},
	"github.com/go-sourcemap/sourcemap":        {"/internal/jsvm"},
	"golang.org/x/sys":                         {"/internal/trust/subprocess", "/internal/jsvm", "/internal/sources/pin", "/internal/sources/watch", "/acceptance/defaultseccomp"},
	"github.com/go-jose/go-jose":               {"/internal/trust/accesstoken", "/internal/trust/issuertest", "/internal/trust/oauthclient", "/internal/trust/oauthtest"},
	"filippo.io/age":                           {"/internal/trust/secret"},
	"github.com/tailscale/hujson":              {"/internal/config/clientconfig"},
	"github.com/BurntSushi/toml":               {"/internal/config/clientconfig"},
	"github.com/jackc/pgx":                     {"/internal/store", "/internal/store/pgtest"},
	"modernc.org/sqlite":                       {"/internal/store"},
	"golang.org/x/crypto":                      {"/packs/markets", "/packs/trading/hyperliquid", "/acceptance/fakemarkets"},
	"github.com/decred/dcrd":                   {"/packs/trading/hyperliquid", "/acceptance/fakemarkets"},
	"github.com/coder/websocket":               {"/packs/homeassistant/hass", "/acceptance/fakehome"},
	"github.com/spf13/cobra":                   {"/cli"},
	"go.uber.org/goleak":                       {"/internal/base/leaktest"},
	"github.com/lmittmann/tint":                {"/cli"},
	"github.com/shopspring/decimal":            {"/packs/trading", "/packs/trading/market", "/packs/trading/market/markettest", "/packs/trading/account", "/packs/trading/introspection", "/packs/trading/engine", "/packs/trading/paper", "/packs/trading/backtest", "/packs/trading/bars", "/packs/trading/hyperliquid", "/packs/trading/cryptopanic", "/packs/trading/marketdata", "/acceptance/fakemarkets"},
}

func TestImportsPointInwards(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, ok := imports[name]
		if !ok {
			allowed = []string{""}
		}
		for _, imported := range p.Imports {
			if own, ok := strings.CutPrefix(imported, module); ok {
				if !slices.Contains(allowed, own) {
					t.Errorf("%s may not import %s", p.ImportPath, imported)
				}
				continue
			}
			if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
				continue // the standard library
			}
			if !slices.Contains(cageOf(imported), name) {
				t.Errorf("%s may not import %s (see cages)", p.ImportPath, imported)
			}
		}
	}
}

// Admission depends on an interface that the store implements, not on a database.
func TestAdmissionImportsNoDatabaseDriver(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./internal/admission").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "github.com/jackc/pgx") || strings.Contains(name, "sqlite") || name == "database/sql" {
			t.Errorf("internal/admission imports %s", name)
		}
	}
}

func cageOf(imported string) []string {
	for prefix, cage := range cages {
		if imported == prefix || strings.HasPrefix(imported, prefix+"/") {
			return cage
		}
	}
	return nil
}

func TestEveryPackageHasAComment(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && !regexp.MustCompile(`^(Package|Command) \w+ .*\.`).MatchString(p.Doc) {
			t.Errorf("%s: %q is not a package comment", p.ImportPath, p.Doc)
		}
	}
}

func TestModulesReplaceNothing(t *testing.T) {
	for _, file := range []string{"go.mod", "tools/go.mod"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "replace ") {
			t.Errorf("%s replaces a module, which breaks go install", file)
		}
	}
}

// secrets matches keys that must never be committed. The map's keys are the prefixes that such keys
// start with: searching for a prefix is much faster than a regular expression.
var secrets = map[string]*regexp.Regexp{
	"AKIA":        regexp.MustCompile(`^[0-9A-Z]{16}`),
	"AIza":        regexp.MustCompile(`^[0-9A-Za-z_-]{35}`),
	"eyJ":         regexp.MustCompile(`^[A-Za-z0-9_-]{20,}\.eyJ`),
	"gh":          regexp.MustCompile(`^[pousr]_[A-Za-z0-9]{36}`),
	"sk-":         regexp.MustCompile(`^[A-Za-z0-9_-]{32,}`),
	"xox":         regexp.MustCompile(`^[baprs]-[A-Za-z0-9-]{10,}`),
	"-----BEGIN ": regexp.MustCompile(`^[A-Z ]*PRIVATE KEY-----`),
}

func TestNoSecretIsCommitted(t *testing.T) {
	walk(t, func(path string, data []byte) {
		for start, rest := range secrets {
			for _, after, found := bytes.Cut(data, []byte(start)); found; _, after, found = bytes.Cut(after, []byte(start)) {
				if rest.Match(after) {
					t.Errorf("%s contains something that looks like a key: %s%.8s…", path, start, after)
				}
			}
		}
	})
}

// walk visits every file of the repository that could be committed.
func walk(t *testing.T, visit func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a temporary file that was removed in the meantime
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "node_modules", "bin", "built", "dist"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			visit(path, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The root package is the domain: it has no I/O and starts no goroutines.
func TestTheDomainDoesNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if slices.Contains([]string{`"os"`, `"net"`, `"net/http"`, `"io/fs"`, `"os/exec"`}, i.Path.Value) {
				t.Errorf("%s imports %s", name, i.Path.Value)
			}
		}
		data, err := os.ReadFile(name)
		if err != nil || regexp.MustCompile(`(?m)^\s*go (func|\w+[.(])|time\.Now\(\)`).Match(data) {
			t.Errorf("%s starts a goroutine or reads the clock (%v)", name, err)
		}
	}
}
