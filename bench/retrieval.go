package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/control/search"
)

// retrievalPage is the number of hits that each search returns.
const retrievalPage = 20

// heldOut lists groups of queries that were not used to tune the ranking.
var heldOut = map[string]bool{"sealtools/test_out_domain": true, "stabletoolbench/G3_instruction": true}

// labelledSet is a set of tools and queries. Each query lists the tools that it needs.
type labelledSet struct {
	name    string
	tools   []labelledTool
	queries []labelledQuery
}

type labelledTool struct {
	ID       string      `json:"id"`
	Server   string      `json:"server"`
	Category string      `json:"category"`
	Name     string      `json:"name"`
	Text     string      `json:"text"`
	Params   [][2]string `json:"params"` // name and description
}

func (t *labelledTool) doc() search.Doc {
	d := search.Doc{Name: t.Name, Text: t.Text, Server: t.Server, Category: t.Category}
	for _, p := range t.Params {
		d.Args = append(d.Args, search.Arg{Name: p[0], Text: p[1]})
	}
	return d
}

type labelledQuery struct {
	ID       string     `json:"id"`
	Group    string     `json:"group"`
	Query    string     `json:"query"`
	Relevant []string   `json:"relevant"`
	Any      [][]string `json:"any"` // one of each is needed; if empty, all relevant tools are needed
}

// needs returns the alternatives for each tool that the query needs.
func (q *labelledQuery) needs() [][]string {
	if len(q.Any) > 0 {
		return q.Any
	}
	var needs [][]string
	for _, id := range q.Relevant {
		needs = append(needs, []string{id})
	}
	return needs
}

// measureRetrieval measures how well search.Index.Rank finds the tools for labelled queries. The
// folder contains one folder for each set, with tools.jsonl and queries.jsonl.
func measureRetrieval(dir string) error {
	sets, err := loadSets(dir)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "bench: skipped: %v\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	var summary, groups []string
	for _, set := range sets {
		s, g := set.measure()
		summary, groups = append(summary, s...), append(groups, g...)
	}
	const header = "| set | queries | tools | number of queries | ranking | recall@1 | @5 | @10 | @20 | complete@5 | @20 | MRR | p50 |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n"
	fmt.Printf("Tools found by whole user messages, of the first %d hits; plain is BM25 over names and descriptions\n\n%s%s\n", retrievalPage, header, strings.Join(summary, ""))
	fmt.Printf("The same by group of queries\n\n%s%s\n", header, strings.Join(groups, ""))
	return measureSearchAtSize(sets, 10_000)
}

// measure returns the lines for the whole set, with the held-out groups listed separately, and for
// all groups.
func (s *labelledSet) measure() (summary, groups []string) {
	docs := make([]search.Doc, len(s.tools))
	texts := make([]string, len(s.tools))
	for i := range s.tools {
		docs[i] = s.tools[i].doc()
		texts[i] = s.tools[i].Name + " " + s.tools[i].Text
	}
	ranked, plain := search.New(docs), newPlainBM25(texts)
	scores := [2][]retrievalScore{
		s.score(func(query string) (docs []int) {
			for _, h := range ranked.Rank(query, retrievalPage, nil) {
				docs = append(docs, h.Doc)
			}
			return docs
		}),
		s.score(func(query string) []int { return plain.rank(query, retrievalPage) }),
	}
	byGroup := make(map[string][]int)
	var all []int
	for i, q := range s.queries {
		byGroup[q.Group] = append(byGroup[q.Group], i)
		all = append(all, i)
	}
	summary = s.lines("all", all, scores)
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		label := name
		if heldOut[s.name+"/"+name] {
			label += " (held out)"
			summary = append(summary, s.lines(label, byGroup[name], scores)...)
		}
		if len(byGroup) > 1 {
			groups = append(groups, s.lines(label, byGroup[name], scores)...)
		}
	}
	return summary, groups
}

// lines returns a line for each ranking.
func (s *labelledSet) lines(label string, queries []int, scores [2][]retrievalScore) (lines []string) {
	for i, ranking := range []string{"Rank", "plain"} {
		m := meanScore(scores[i], queries)
		lines = append(lines, fmt.Sprintf("| %s | %s | %d | %d | %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %s |\n",
			s.name, label, len(s.tools), len(queries), ranking,
			m.recall[0], m.recall[1], m.recall[2], m.recall[3], m.complete[1], m.complete[3], m.reciprocal, micros(m.took)))
	}
	return lines
}

func micros(d time.Duration) string {
	return strconv.FormatFloat(float64(d.Nanoseconds())/1000, 'f', 0, 64) + " µs"
}

// depths are the numbers of top hits to consider.
var depths = [...]int{1, 5, 10, 20}

// retrievalScore is a query's score, or the mean of several scores.
type retrievalScore struct {
	recall     [len(depths)]float64 // share of the needed tools among the top hits
	complete   [len(depths)]float64 // whether all needed tools are among the top hits
	reciprocal float64              // 1/position of the first needed tool
	took       time.Duration        // in a mean: the median
}

func (s *labelledSet) score(rank func(query string) []int) []retrievalScore {
	scores := make([]retrievalScore, len(s.queries))
	for i := range s.queries {
		q := &s.queries[i]
		began := time.Now()
		hits := rank(q.Query)
		scores[i] = s.scoreHits(q, hits)
		scores[i].took = time.Since(began)
	}
	return scores
}

func (s *labelledSet) scoreHits(q *labelledQuery, hits []int) (score retrievalScore) {
	needs := q.needs()
	for _, alternatives := range needs {
		at := slices.IndexFunc(hits, func(doc int) bool { return slices.Contains(alternatives, s.tools[doc].ID) })
		if at < 0 {
			continue
		}
		score.reciprocal = max(score.reciprocal, 1/float64(at+1))
		for i, depth := range depths {
			if at < depth {
				score.recall[i] += 1 / float64(len(needs))
			}
		}
	}
	for i, recall := range score.recall {
		if recall > 0.999 {
			score.complete[i] = 1
		}
	}
	return score
}

func meanScore(scores []retrievalScore, queries []int) (mean retrievalScore) {
	part := 1 / float64(len(queries))
	var took []time.Duration
	for _, q := range queries {
		for i := range depths {
			mean.recall[i] += part * scores[q].recall[i]
			mean.complete[i] += part * scores[q].complete[i]
		}
		mean.reciprocal += part * scores[q].reciprocal
		took = append(took, scores[q].took)
	}
	slices.Sort(took)
	mean.took = took[len(took)/2]
	return mean
}

// measureSearchAtSize measures one index of n tools: all of the sets' tools, and copies of them on
// other servers.
func measureSearchAtSize(sets []*labelledSet, n int) error {
	var docs []search.Doc
	for round := 0; len(docs) < n; round++ {
		for _, set := range sets {
			for i := range set.tools {
				d := set.tools[i].doc()
				d.Server = cmp.Or(d.Server, fmt.Sprint(set.name, i%50))
				if round > 0 {
					d.Server += fmt.Sprint(" ", round)
				}
				docs = append(docs, d)
			}
		}
	}
	docs = docs[:n]
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	index := search.New(docs)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	built := fastest(func() { search.New(docs) })
	var took []time.Duration
	for _, set := range sets {
		for i := range set.queries {
			took = append(took, fastest(func() { index.Rank(set.queries[i].Query, retrievalPage, nil) }))
		}
	}
	slices.Sort(took)
	fmt.Printf("One index of %d tools: CPU time, the least of %d runs\n\n", len(docs), repetitions)
	fmt.Printf("| built in | memory | queries | p50 | p99 | max |\n|---|---|---|---|---|---|\n| %d ms | %.1f MiB | %d | %s | %s | %s |\n",
		built.Milliseconds(), float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), len(took),
		micros(took[len(took)/2]), micros(took[len(took)*99/100]), micros(took[len(took)-1]))
	runtime.KeepAlive(docs)
	return nil
}

const repetitions = 3

// fastest returns the lowest CPU time of several runs. Elapsed time would depend on other work on
// the machine.
func fastest(run func()) time.Duration {
	var best time.Duration
	for i := range repetitions {
		began := threadTime()
		run()
		if took := threadTime() - began; i == 0 || took < best {
			best = took
		}
	}
	return best
}

// loadSets loads the sets in a folder, sorted by name.
func loadSets(dir string) ([]*labelledSet, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var sets []*labelledSet
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		s := &labelledSet{name: e.Name()}
		if s.tools, err = readLines[labelledTool](filepath.Join(dir, e.Name(), "tools.jsonl")); err != nil {
			return nil, err
		}
		if s.queries, err = readLines[labelledQuery](filepath.Join(dir, e.Name(), "queries.jsonl")); err != nil {
			return nil, err
		}
		sets = append(sets, s)
	}
	if len(sets) == 0 {
		return nil, fmt.Errorf("%s has no sets: %w", dir, fs.ErrNotExist)
	}
	return sets, nil
}

// readLines reads a file with a JSON value on each line.
func readLines[T any](path string) ([]T, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var list []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var value T
		if err := json.Unmarshal(lines.Bytes(), &value); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(list)+1, err)
		}
		list = append(list, value)
	}
	return list, lines.Err()
}
