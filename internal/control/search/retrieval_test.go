package search

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRetrieval measures recall@5 on the labeled set in testdata: the tools of a fictitious company
// and handwritten queries. A change to the ranking must not lower a figure by more than 0.01; if it
// improves a figure, raise it here. `go run ./bench -retrieval` prints more about the set.
func TestRetrieval(t *testing.T) {
	last := map[string]float64{
		"message":    0.992, // whole messages from users
		"search":     1.000, // a few words, as models search
		"paraphrase": 0.160, // words that do not occur in the descriptions
	}
	type tool struct {
		ID, Server, Category, Name, Text string
		Params                           [][2]string
	}
	type query struct {
		Group, Query string
		Relevant     []string
	}
	var docs []Doc
	var ids []string
	for _, v := range readSet[tool](t, "tools.jsonl") {
		d := Doc{Name: v.Name, Text: v.Text, Server: v.Server, Category: v.Category}
		for _, p := range v.Params {
			d.Args = append(d.Args, Arg{Name: p[0], Text: p[1]})
		}
		docs, ids = append(docs, d), append(ids, v.ID)
	}
	x := New(docs)
	recall, count := make(map[string]float64), make(map[string]float64)
	for _, q := range readSet[query](t, "queries.jsonl") {
		count[q.Group]++
		hits := x.Rank(q.Query, 15, nil)
		for _, h := range hits[:min(5, len(hits))] {
			if slices.Contains(q.Relevant, ids[h.Doc]) {
				recall[q.Group] += 1 / float64(len(q.Relevant))
			}
		}
	}
	if len(docs) != 60 || len(count) != len(last) || count["paraphrase"] != 50 {
		t.Fatalf("%d tools, and queries %v", len(docs), count)
	}
	for group, figure := range last {
		got := recall[group] / count[group]
		t.Logf("%s: recall@5 %.3f of %v queries", group, got, count[group])
		if got < figure-0.01 {
			t.Errorf("%s: recall@5 is %.3f, was %.3f", group, got, figure)
		}
	}
}

func readSet[T any](t *testing.T, name string) (list []T) {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", "retrieval", "outfitter", name))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var value T
		if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
			t.Fatalf("%s, line %d: %v", name, len(list)+1, err)
		}
		list = append(list, value)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}
