package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/control/export"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/script"
)

// tokenSet is the set whose tasks are used.
const tokenSet = "livemcpbench"

// searchLines is the default number of lines that search_tools returns.
const searchLines = 15

// measureTokens counts the tokens in tool definitions that a model reads for a task: with every
// tool listed, with tool search, and with code. The tasks are performed by an oracle: an agent that
// makes no mistakes and calls each tool that the task needs once.
func measureTokens(dir string) error {
	sets, err := loadSets(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "bench: skipped: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(sets, func(s *labelledSet) bool { return s.name == tokenSet })
	if at < 0 {
		fmt.Fprintf(os.Stderr, "bench: skipped: %s has no set %s\n", dir, tokenSet)
		return nil
	}
	o, err := newOracle(sets[at])
	if err != nil {
		return err
	}
	tasks := o.tasks()
	return o.print(tasks)
}

// oracle has the list of tools that each task needs, and collects the texts that a model would
// read.
type oracle struct {
	set   *labelledSet
	view  *gates.View
	index *offer.Index
	names map[string]string // names of the tools at the gate, by ID
	lines map[string]bool   // whether a tool's line shows its whole signature, by name

	list, searchMenu, codeMenu string // tool definitions
}

// task contains the texts that a model reads for a task.
type task struct {
	calls     int
	lines     string // result of search_tools
	described string // result of describe_tools, for tools whose line is abridged or missing
	complete  bool   // whether the lines include all tools
}

func newOracle(set *labelledSet) (*oracle, error) {
	o := &oracle{set: set, names: make(map[string]string), lines: make(map[string]bool)}
	ids := make(map[*toolyard.Tool]string)
	var tools []*toolyard.Tool
	for i := range set.tools {
		tool, err := set.tools[i].tool()
		if err != nil {
			return nil, err
		}
		tools, ids[tool] = append(tools, tool), set.tools[i].ID
	}
	gate := func(kind gates.Offer) *gates.Gate {
		return &gates.Gate{Name: "bench", Mode: toolyard.Read, Naming: gates.NamingPlain, Presentation: gates.Presentation{Offer: kind}}
	}
	search, code := gate(gates.OfferSearch), gate(gates.OfferCode)
	o.view = search.Bind(catalog.Offer{Tools: tools}, nil)
	signatures := new(offer.Signatures)
	for _, t := range o.view.Tools {
		o.names[ids[t.Tool]], o.lines[t.Name] = t.Name, signatures.Of(t.Tool).Complete
	}
	if len(o.names) != len(tools) {
		return nil, fmt.Errorf("the gate shows %d of %d tools", len(o.names), len(tools))
	}
	o.index = offer.NewIndex(o.view, signatures, nil)
	list, err := export.Functions(export.Anthropic, o.view.Tools)
	if err != nil {
		return nil, err
	}
	o.list, o.searchMenu, o.codeMenu = string(list), menu(search), menu(code)
	runner, err := script.NewCode(script.CodeOptions{})
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	run, err := runner.Tool(toolyard.Read)
	if err != nil {
		return nil, err
	}
	definition, err := export.Functions(export.Anthropic, []gates.NamedTool{{Name: run.Name, Tool: run}})
	o.codeMenu += string(definition)
	return o, err
}

// notInID matches characters that server IDs cannot contain.
var notInID = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// tool returns a tool with a schema. The sets have no argument types, so each argument is a string.
func (t *labelledTool) tool() (*toolyard.Tool, error) {
	properties := make(map[string]any, len(t.Params))
	for _, p := range t.Params {
		property := map[string]string{"type": "string"}
		if p[1] != "" {
			property["description"] = p[1]
		}
		properties[p[0]] = property
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		return nil, err
	}
	return toolyard.NewTool(
		toolyard.Spec{Name: t.Name, Description: t.Text, Server: notInID.ReplaceAllString(t.Server, "-"), Category: t.Category, Input: schema, Effects: toolyard.ReadOnly},
		func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
}

// menu returns the definitions of a gate's meta-tools, as a client passes them to a model.
func menu(g *gates.Gate) string {
	var b bytes.Buffer
	for _, d := range offer.Definitions(g) {
		fmt.Fprintf(&b, `{"name":%q,"description":%q,"input_schema":%s}`, d.Name, d.Description, d.InputSchema)
	}
	return b.String()
}

// tasks searches once for each task, using its words.
func (o *oracle) tasks() []task {
	var tasks []task
	for i := range o.set.queries {
		q := &o.set.queries[i]
		t := task{lines: o.index.Search(offer.Query{Text: q.Query, Limit: searchLines}, offer.Scope{}), complete: true}
		var missing []string
		for _, alternatives := range q.needs() {
			t.calls++
			name, found := o.pick(alternatives, t.lines)
			t.complete = t.complete && found
			if !found || !o.lines[name] {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			t.described = o.index.Describe(missing, offer.Scope{})
		}
		tasks = append(tasks, t)
	}
	return tasks
}

// pick returns the first alternative that appears in the search lines, or else the first
// alternative.
func (o *oracle) pick(alternatives []string, lines string) (name string, found bool) {
	for _, id := range alternatives {
		if name := o.names[id]; strings.Contains("\n"+lines, "\n"+name+"(") {
			return name, true
		}
	}
	return o.names[alternatives[0]], false
}

// reading is the number of tokens that a model reads for a task with one approach.
type reading struct {
	once     int // each definition and search result counted once, as with a cached prompt
	repeated int // the same, counted in every turn
}

// turns adds up the texts that stay in the prompt. Each text is read from the turn after the
// previous text's.
func turns(n int, texts ...int) (r reading) {
	for i, text := range texts {
		r.once += text
		r.repeated += text * max(n-i, 1)
	}
	return r
}

func (o *oracle) print(tasks []task) error {
	texts := []string{o.list, o.searchMenu, o.codeMenu}
	for _, t := range tasks {
		texts = append(texts, t.lines, t.described)
	}
	unit, counts, err := countTokens(texts)
	if err != nil {
		return err
	}
	rows := []struct {
		name string
		cost func(t task, lines, described int) reading
	}{
		{"every tool listed", func(t task, _, _ int) reading { return turns(t.calls+1, counts[0]) }},
		{"search, once per task", func(t task, lines, described int) reading {
			return turns(t.calls+2+min(described, 1), counts[1], lines, described)
		}},
		{"search, once per needed tool", func(t task, lines, described int) reading {
			all := []int{counts[1]}
			for range t.calls {
				all = append(all, lines)
			}
			return turns(2*t.calls+1+min(described, 1), append(all, described)...)
		}},
		{"code, search once per task", func(_ task, lines, described int) reading {
			return turns(3+min(described, 1), counts[2], lines, described)
		}},
	}
	complete, calls := 0, 0
	for _, t := range tasks {
		calls += t.calls
		if t.complete {
			complete++
		}
	}
	fmt.Printf("Tool definitions that a model reads per task: %s, %d tools, %d tasks, %.1f needed tools each\n\n", o.set.name, len(o.set.tools), len(tasks), float64(calls)/float64(len(tasks)))
	fmt.Printf("| way | %s, mean, each text once | in every turn | complete@%d |\n|---|---|---|---|\n", unit, searchLines)
	for i, row := range rows {
		var sum reading
		for j, t := range tasks {
			r := row.cost(t, counts[3+2*j], counts[4+2*j])
			sum.once, sum.repeated = sum.once+r.once, sum.repeated+r.repeated
		}
		found := "1.000"
		if i > 0 {
			found = fmt.Sprintf("%.3f", float64(complete)/float64(len(tasks)))
		}
		fmt.Printf("| %s | %d | %d | %s |\n", row.name, sum.once/len(tasks), sum.repeated/len(tasks), found)
	}
	fmt.Printf("\nMenu of search: %d %s; with code: %d. The agent is an oracle: it searches with the words of the task, describes the needed tools whose "+
		"line is abridged or missing, and calls each once. It finds tools that the search misses; complete@%d is the part of tasks where the first search "+
		"has all of them. The table does not show whether a real model succeeds. The set lacks the types of arguments, so real definitions are longer.\n",
		counts[1], unit, counts[2], searchLines)
	return nil
}

// countTokens counts the tokens in texts with a Node tokenizer, or estimates them.
func countTokens(texts []string) (unit string, counts []int, err error) {
	if _, err := os.Stat(filepath.Join("bench", "node", "node_modules", "gpt-tokenizer")); err != nil {
		fmt.Fprintln(os.Stderr, "bench: to count tokens instead of bytes, run npm install --prefix bench/node gpt-tokenizer@2.9.0")
		for _, text := range texts {
			counts = append(counts, (len(text)+3)/4)
		}
		return "bytes/4", counts, nil
	}
	input, err := json.Marshal(texts)
	if err != nil {
		return "", nil, err
	}
	cmd := exec.Command("node", filepath.Join("bench", "node", "tokens.mjs"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", nil, fmt.Errorf("count tokens: %w", err)
	}
	if err := json.Unmarshal(out, &counts); err != nil {
		return "", nil, fmt.Errorf("count tokens: %w", err)
	}
	if len(counts) != len(texts) {
		return "", nil, fmt.Errorf("count tokens: %d counts for %d texts", len(counts), len(texts))
	}
	return "o200k tokens", counts, nil
}
