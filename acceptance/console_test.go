package acceptance

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/internal/store/pgtest"
)

var pictures = flag.Bool("pictures", false, "write the pictures of the documentation")

// looked is a configuration with content for every screen of the console.
const looked = `
name: harbor
store: %q
editable: [toolsets, gates, prices]
record: {arguments: full}
limits: {wait: 1s}
log: {level: warn}
scripts: {dir: tools}
terms:
  note_read: {executeUsd: "0.0025"}
  note_write: {executeUsd: "0.000000007", rate: {concurrency: 4}}
  note_paced: {rate: {perMinute: 3}}
toolsets:
  desk: {tools: [echo, hello, count_invoice, rank_quote], servers: [{id: up}]}
gates:
  all: {mode: write, callers: keys}
  chat: {mode: write, toolset: desk}
  sell: {mode: write, surface: execute, callers: keys}
`

// brokenScript has a mistake on line 3.
const brokenScript = `import { z } from "zod";
export const description = "Is not finished.";
export const inputSchema = z.object({ name: z.string( });
export default async () => "never";
`

// harbor is the yard that the browser tests use.
type harbor struct {
	*process
	store, browser           string // endpoint of the Chromium that scripts share
	operator, viewer, caller string // API keys

	mu    sync.Mutex
	table []string // rows of figures
}

// seen is a browser script's report.
type seen struct {
	Figures map[string]string
	Steps   map[string]int // in milliseconds
	Values  map[string]json.RawMessage
	Faults  []string
}

// needBrowser skips the test if there is no browser.
func needBrowser(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../internal/serve/console/built/index.html"); err != nil {
		t.Fatal("the binary was built without the console: run make console")
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed")
		}
		t.Skip("chromium is not installed")
	}
}

// newHarbor serves 10,000 tools with a PostgreSQL store, a server that is up, one that is down, and
// recorded calls.
func newHarbor(t *testing.T) *harbor {
	t.Helper()
	needBrowser(t)
	h := &harbor{store: pgtest.ForTest(t).Database(t)}
	fake := startFake(t, freeAddress(t), "both")
	dir := folder(t, map[string]string{"tools/hello.ts": helloScript, "tools/broken.ts": brokenScript, "tools/" + longName + ".ts": helloScript})
	h.process = &process{t: t, dir: dir}
	config := fmt.Sprintf(looked, h.store) +
		servers(onHTTP("up", fake.url, "effects: {rd: read}"), onHTTP("gone", "http://"+freeAddress(t)+"/mcp", "required: false"))
	h.process = serveIn(t, dir, "testyard", config, "TESTYARD_CATALOG=10000")
	h.operator, h.viewer, h.caller = keyOf(t, h.process, "olivia", "operator", "write"), keyOf(t, h.process, "victor", "viewer"), keyOf(t, h.process, "carl")
	for account, usd := range map[string]string{"acme": "5", "globex": "1.000000001"} {
		if code, out, errs := runIn(t, dir, nil, "toolyard", "accounts", "fund", account, usd); code != 0 {
			t.Fatalf("accounts fund: exit %d: %s%s", code, out, errs)
		}
	}
	h.past(t)
	h.browser = startBrowser(t)
	return h
}

// longName is the longest name that gates do not shorten.
var longName = strings.Repeat("reconcile_the_shipping_manifest_", 2)[:63]

// startBrowser starts the Chromium that all scripts of a test share.
func startBrowser(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "server.mjs")
	cmd.Dir = "browser"
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("Chromium did not start: %v", err)
	}
	return strings.TrimSpace(address)
}

// wish is one call in a batch.
type wish struct {
	Gate    string         `json:"gate"`
	Tool    string         `json:"tool"`
	Args    map[string]any `json:"args,omitempty"`
	Session string         `json:"session,omitempty"`
}

// past makes several hundred calls: calls paid by session and by account, free calls, and various
// failures. It waits until they are recorded.
func (h *harbor) past(t *testing.T) {
	t.Helper()
	made := 0
	var open session
	h.post(t, "/sessions", map[string]any{"limitUsd": "1", "ttl": "2h"}, &open)
	for i := range 6 {
		var calls []wish
		for j := range 8 {
			calls = append(calls,
				wish{Gate: "sell", Tool: "note_read", Session: open.ID}, wish{Gate: "sell", Tool: "note_write"}, wish{Gate: "sell", Tool: "note_read", Args: map[string]any{"fail": true}},
				wish{Gate: "all", Tool: "echo", Args: map[string]any{"text": fmt.Sprint("call ", i, j)}}, wish{Gate: "all", Tool: "hello", Args: map[string]any{"name": "Ann"}},
				wish{Gate: "all", Tool: "mcp_up__echo", Args: map[string]any{"text": "through"}}, wish{Gate: "all", Tool: "throw"}, wish{Gate: "all", Tool: "echo", Args: map[string]any{"text": 7}},
			)
		}
		h.post(t, "/calls/batch", map[string]any{"calls": calls}, nil)
		made += len(calls)
	}
	conn, err := pgx.Connect(t.Context(), h.store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	soon(t, "the calls are recorded", func() bool {
		n := 0
		return conn.QueryRow(t.Context(), "select count(*) from calls").Scan(&n) == nil && n >= made
	})
}

// post sends a request to the API as the operator and decodes the response.
func (h *harbor) post(t *testing.T, path string, body, answer any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.address()+"/api/v1"+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.operator)
	r.Header.Set("Content-Type", "application/json")
	res, err := shop.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err = io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		t.Fatalf("POST %s: %s %s %v", path, res.Status, data, err)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(data, answer); err != nil {
		t.Fatalf("POST %s: %s: %v", path, data, err)
	}
}

// show runs a browser script and reports its figures and errors.
func (h *harbor) show(t *testing.T, script string, more map[string]any) seen {
	t.Helper()
	settings := map[string]any{
		"url": "http://" + h.address(), "browser": h.browser, "operator": h.operator, "viewer": h.viewer, "caller": h.caller, "artifacts": t.ArtifactDir(),
	}
	maps.Copy(settings, more)
	got := browse(t, script, settings)
	for _, name := range slices.Sorted(maps.Keys(got.Figures)) {
		h.note(name, got.Figures[name])
	}
	for _, name := range slices.Sorted(maps.Keys(got.Steps)) {
		if ms := got.Steps[name]; ms > 10_000 {
			h.note(script+": "+name, fmt.Sprint(ms, " ms"))
		}
	}
	return got
}

// note adds a figure to the table.
func (h *harbor) note(name, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.table = append(h.table, fmt.Sprintf("%-34s %s", name, text))
}

// browse runs a browser script and reports its errors as test errors.
func browse(t *testing.T, script string, settings map[string]any) (got seen) {
	t.Helper()
	data, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(filepath.Join("browser", script))
	if err != nil {
		t.Fatal(err)
	}
	out, err := node(t, path, string(data))
	if err != nil || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%s: %v %s", script, err, out)
	}
	for _, fault := range got.Faults {
		t.Error(fault)
	}
	return got
}

// sought are names in the catalog to search for.
var sought = []string{
	"archive_shipment_notes", "approve_asset", "assign_vehicle", "cancel_meeting", "compare_budget_draft",
	"count_outage_by_region", "create_refund", "delete_badge_history", "describe_cluster", "export_ledger",
	"fetch_patient_status", "find_forklift_notes", "forecast_order", "import_contact", "list_lease_draft",
	"merge_customer", "rank_quote_by_owner", "schedule_holiday", "summarize_claim", "update_warehouse_status",
}

// Users can view and do everything in a browser; each script covers a part. Scripts in a group
// depend on the changes made by earlier ones, and groups run at the same time.
func TestConsole(t *testing.T) {
	t.Parallel()
	h := newHarbor(t)
	start := time.Now()
	script := func(name string, settings map[string]any) func(*testing.T) {
		return func(t *testing.T) { h.show(t, name+".mjs", settings) }
	}
	group := func(t *testing.T, name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			heavy(t)
			test(t)
		})
	}
	t.Run("use", func(t *testing.T) {
		group(t, "edits", func(t *testing.T) {
			t.Run("enter", script("enter", nil))
			t.Run("catalog", script("catalog", nil))
			t.Run("spend", h.spend)
			t.Run("approval", script("approval", nil))
			t.Run("toolsets", script("toolsets", nil))
		})
		group(t, "questions", script("questions", nil))
		group(t, "calls", func(t *testing.T) {
			t.Run("form", script("form", nil))
			t.Run("calls", script("calls", nil))
			t.Run("own", script("own", nil))
		})
		group(t, "search", script("search", map[string]any{"names": sought}))
	})
	h.lengthen(t)
	t.Run("view", func(t *testing.T) {
		for _, size := range []string{"wide", "phone"} {
			group(t, size, script("screens", map[string]any{"size": size}))
		}
		const parts = 2
		for part := range parts {
			group(t, fmt.Sprint("widths ", part+1), script("widths", map[string]any{"long": longName, "part": part, "parts": parts}))
		}
		group(t, "keys", script("keys", nil)) // waits until a revoked key is refused
	})
	t.Logf("the console with 10,000 tools, in %s:\n  %s", time.Since(start).Round(time.Second), strings.Join(h.table, "\n  "))
}

// A sign-in is bound to this yard's console: a program on another port of the host cannot use it,
// and a link on another page cannot replace it.
func TestConsoleSignIn(t *testing.T) {
	heavy(t)
	needBrowser(t)
	const link = "tyl_LINKOFTHISYARD"
	p := serve(t, "testyard", "store: sqlite:yard.db\ngates: {all: {mode: write, callers: keys}}\n", "TESTYARD_OPERATOR="+link)
	browse(t, "signin.mjs", map[string]any{
		"url": "http://" + p.address(), "link": link, "artifacts": t.ArtifactDir(),
		"operator": keyOf(t, p, "olivia", "operator", "write"), "caller": keyOf(t, p, "carl"),
	})
}

// The pages Queries and Approvals show current queries and calls, update them, and let operators
// decide.
func TestConsoleQueriesAndApprovals(t *testing.T) {
	heavy(t)
	needBrowser(t)
	model := scriptedModel(t, `
conversations:
  - {match: count, turns: [{call: [{name: count, arguments: {n: 3}}]}, {say: "It is 3 [e1]."}]}
  - {match: hang, turns: [{say: x, fault: {hang: true}}]}
`, false)
	dir := folder(t, map[string]string{"tools/count.ts": countScript, "tools/ship_order.ts": shipScript})
	p := serveIn(t, dir, "toolyard", fmt.Sprintf(`
store: sqlite:yard.db
scripts: {dir: tools}
models: {main: {api: chat, model: fake, url: %q, private: true, auth: {secretRef: env:MODEL_KEY}}}
agents: {librarian: {model: main, gate: research, instructions: You are a librarian.}}
rules: [{name: shipments, tools: [ship_order], then: ask, by: operator, message: Check the address.}]
approvals: {hold: 0s}
toolsets: {counting: {tools: [count]}}
gates:
  research: {mode: read, surface: answer, toolset: counting, callers: keys}
  ask: {mode: read, callers: keys, agents: [librarian]}
  desk: {mode: write, callers: keys}
`, model.BaseURL("chat")), "MODEL_KEY="+fakemodel.Key)
	browse(t, "queries.mjs", map[string]any{
		"url": "http://" + p.address(), "artifacts": t.ArtifactDir(), "operator": keyOf(t, p, "olivia", "operator", "write"), "caller": keyOf(t, p, "carl", "write"),
	})
}

const shipScript = `import { z } from "zod";
export const description = "Ships an order.";
export const inputSchema = z.object({ id: z.number().int(), items: z.array(z.string()).optional() });
export default ({ id }) => "shipped " + id;
`

// lengthen adds very long names and a year of spend.
func (h *harbor) lengthen(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(ctx, `INSERT INTO sums (shard, hour, account, server, tool, calls, errors, charged, usd)
		SELECT 0, date_trunc('day', now()) - d * interval '1 day', 'account-' || a || '-of-a-customer-with-a-long-name', '', $1, 10 + a, 1, 9, 1000000000::bigint * (1 + (d * 7 + a * 13) % 23)
		FROM generate_series(0, 730) AS d, generate_series(1, 6) AS a`, longName)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a-long-name-", 10)
	h.post(t, "/keys", map[string]any{"name": long, "caller": long, "account": long, "scopes": []string{"gate:all", "gate:chat", "gate:sell", "write", "viewer"}}, nil)
	for range 3 {
		h.post(t, "/calls", map[string]any{"gate": "all", "tool": longName, "args": map[string]any{"name": "Ann"}}, nil)
	}
	h.post(t, "/accounts/"+long+"/fund", map[string]any{"amountUsd": "123456.123456789", "reference": "long"}, nil)
}

// spend compares the totals on the page with the ledger, to the last digit.
func (h *harbor) spend(t *testing.T) {
	got := h.show(t, "spend.mjs", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, h.store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for name, query := range map[string]string{
		"total":      "select coalesce(sum(price), 0)::bigint from calls",
		"note_read":  "select coalesce(sum(price), 0)::bigint from calls where tool = 'note_read'",
		"note_write": "select coalesce(sum(price), 0)::bigint from calls where tool = 'note_write'",
	} {
		var sum int64
		if err := conn.QueryRow(ctx, query).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		var shown string
		_ = json.Unmarshal(got.Values[name], &shown)
		if want := "$" + toolyard.Money(sum).String(); shown != want || sum == 0 {
			t.Errorf("the page shows %s as %q, the ledger has %q", name, shown, want)
		}
		h.note("spend, "+name, shown)
	}
}

// TestPictures takes the documentation's screenshots from a running demo.
func TestPictures(t *testing.T) {
	if !*pictures {
		t.Skip("only with -pictures: it writes to docs/pictures")
	}
	needBrowser(t)
	address, dir := freeAddress(t), filepath.Join(t.TempDir(), "demo")
	p := &process{t: t, dir: t.TempDir(), url: "http://" + address + "/mcp"}
	p.launch("toolyard", nil, "demo", "--listen", address, "--rate", "1", "--dir", dir)
	p.await(p.url)
	heal(t, dir)
	time.Sleep(20 * time.Second) // lets some activity accumulate
	keys, err := os.ReadFile(filepath.Join(dir, "keys.txt"))
	if err != nil {
		t.Fatal(err)
	}
	operator := regexp.MustCompile(`mira +(\S+)`).FindSubmatch(keys)
	folder, err := filepath.Abs("../docs/pictures")
	if err != nil || operator == nil {
		t.Fatalf("%v, or mira has no key: %s", err, keys)
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	browse(t, "pictures.mjs", map[string]any{"url": "http://" + address, "operator": string(operator[1]), "folder": folder, "artifacts": t.ArtifactDir()})
	squeeze(t, folder)
}

// heal repairs the demo's faults, so that the screenshots show a healthy yard with one pending
// definition.
func heal(t *testing.T, dir string) {
	t.Helper()
	for _, edit := range []struct{ file, old, new string }{
		{"toolyard.yaml", "  archive:                        # does not exist, to show a server that is down\n    command: harbor-archive-mcp\n    effects: {\"*\": read}\n", ""},
		{"toolyard.yaml", ", fleet, archive]", ", fleet]"},
		{"tools/berth_forecast.ts", "getUTCDay(;", "getUTCDay();"},
	} {
		path := filepath.Join(dir, edit.file)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), edit.old) {
			t.Fatalf("%s does not contain %q", edit.file, edit.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), edit.old, edit.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// squeeze compresses the screenshots.
func squeeze(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var small bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, painted(picture)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, small.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		sum += small.Len()
	}
	if sum > 2_500_000 {
		t.Errorf("the pictures have a total size of %d bytes", sum)
	}
	t.Logf("%d pictures, %d KiB together", len(files), sum>>10)
}

// painted returns an image reduced to 256 colors.
func painted(picture image.Image) *image.Paletted {
	often := make(map[color.RGBA]int)
	box := picture.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	palette := colorsOf(often)
	flat := image.NewPaletted(box, palette)
	index := make(map[color.RGBA]uint8)
	for c := range often {
		index[c] = uint8(palette.Index(c)) // there are at most 256 colors
	}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			flat.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return flat
}

// colorsOf selects 256 colors. In each step, it adds the color with the largest error, weighing its
// distance from the selected colors and its frequency, so that even small marks keep their color.
func colorsOf(often map[color.RGBA]int) (palette color.Palette) {
	missed := make(map[color.RGBA]int)
	for c, n := range often {
		missed[c] = n * 255 * 255
	}
	most := func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(missed[a], missed[b]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	}
	for len(palette) < 256 && len(missed) > 0 {
		next := slices.MaxFunc(slices.Collect(maps.Keys(missed)), most)
		palette = append(palette, next)
		delete(missed, next)
		for c, m := range missed {
			r, g, b := int(c.R)-int(next.R), int(c.G)-int(next.G), int(c.B)-int(next.B)
			missed[c] = min(m, often[c]*(r*r+g*g+b*b))
		}
	}
	return palette
}
