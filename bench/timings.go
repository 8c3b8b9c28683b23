package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// timings contains the response times by query, and the size of the last response.
type timings struct {
	mu      sync.Mutex
	took    map[string][]time.Duration
	size    map[string]int
	refused map[string]error
}

func newTimings() *timings {
	return &timings{took: make(map[string][]time.Duration), size: make(map[string]int), refused: make(map[string]error)}
}

// run runs a query and reads its remaining pages.
func (a *timings) run(ctx context.Context, v *apiClient, q *query) error {
	method, path := http.MethodGet, q.path()
	if q.body != "" {
		method = http.MethodPost
	}
	for page := 1; page <= max(q.pages, 1); page++ {
		title := q.title
		if page > 1 {
			title = fmt.Sprintf("%s, page %d", q.title, page)
		}
		began := time.Now()
		data, err := v.do(ctx, method, path, q.body)
		if r := refusal(""); errors.As(err, &r) {
			a.refuse(title, r)
			return nil
		}
		if err != nil {
			return err
		}
		a.add(title, time.Since(began), len(data))
		if q.pages == 0 {
			return nil
		}
		var more struct{ Next string }
		if err := json.Unmarshal(data, &more); err != nil {
			return err
		}
		if more.Next == "" {
			return nil
		}
		path = q.path() + "&before=" + url.QueryEscape(more.Next)
	}
	return nil
}

func (a *timings) add(title string, took time.Duration, size int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took[title], a.size[title] = append(a.took[title], took), size
}

func (a *timings) refuse(title string, why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[title] = why
}

// refusals returns an error that lists the refused queries, or nil.
func (a *timings) refusals() (all error) {
	for _, title := range slices.Sorted(maps.Keys(a.refused)) {
		all = errors.Join(all, fmt.Errorf("%s: %w", title, a.refused[title]))
	}
	return all
}

// better replaces timings with those from another turn where they are faster.
func (a *timings) better(turn *timings) {
	for title, took := range turn.took {
		if before, ok := a.took[title]; !ok || p95(took) < p95(before) {
			a.took[title], a.size[title] = took, turn.size[title]
		}
	}
	maps.Copy(a.refused, turn.refused)
}

// late reports whether a query, or one of its pages, missed the goal.
func (a *timings) late(q *query) bool {
	for title, took := range a.took {
		if (title == q.title || strings.HasPrefix(title, q.title+", page")) && p95(took) > consoleGoal {
			return true
		}
	}
	return false
}

func p95(took []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(took))[(len(took)*95+99)/100-1]
}

// print prints a row for each query and returns the worst 95th percentile.
func (a *timings) print() (worst time.Duration) {
	fmt.Printf("| query | times | p50 | p95 | max | bytes |\n|---|---|---|---|---|---|\n")
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }
	slowest := ""
	for _, title := range slices.Sorted(maps.Keys(a.took)) {
		took := slices.Sorted(slices.Values(a.took[title]))
		if p := p95(took); p > worst {
			worst, slowest = p, title
		}
		fmt.Printf("| %s | %d | %s | %s | %s | %d |\n", title, len(took), ms(took[len(took)/2]), ms(p95(took)), ms(took[len(took)-1]), a.size[title])
	}
	fmt.Printf("\nThe slowest query is %s: %s at p95 (goal: under %s).\n\n", slowest, ms(worst), ms(consoleGoal))
	return worst
}
