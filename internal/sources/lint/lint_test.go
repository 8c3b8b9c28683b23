package lint_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/sources/lint"
)

func tool(t *testing.T, spec toolyard.Spec) *toolyard.Tool {
	t.Helper()
	made, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func object(properties string, required ...string) json.RawMessage {
	list, _ := json.Marshal(append([]string{}, required...))
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(list) + `}`)
}

func TestLint(t *testing.T) {
	good := toolyard.Spec{Name: "get_rate", Description: "Returns the exchange rate of two currencies.", Effects: toolyard.ReadOnly, Input: object(`"base":{"type":"string","description":"The currency to convert from"}`)}
	change := func(f func(*toolyard.Spec)) toolyard.Spec {
		s := good
		f(&s)
		return s
	}
	for name, tt := range map[string]struct {
		spec toolyard.Spec
		want []string
	}{
		"good":          {good, nil},
		"name":          {change(func(s *toolyard.Spec) { s.Name = "get-rate" }), []string{"the name is not in snake_case"}},
		"category":      {change(func(s *toolyard.Spec) { s.Category = "Market Data" }), []string{`category "Market Data" is not in snake_case`, `category "Market Data" is unknown (did you mean "market_data"?)`}},
		"own category":  {change(func(s *toolyard.Spec) { s.Category = "logistics" }), nil},
		"description":   {change(func(s *toolyard.Spec) { s.Description = "Random tool" }), []string{`description "Random tool" is too vague`}},
		"effects":       {change(func(s *toolyard.Spec) { s.Effects = "" }), []string{"the tool does not declare whether it is read-only, so it counts as a write"}},
		"no label":      {change(func(s *toolyard.Spec) { s.Input = object(`"email":{"type":"string"}`) }), []string{"parameter email has no description"}},
		"label is name": {change(func(s *toolyard.Spec) { s.Input = object(`"due_date":{"type":"string","description":"Due date."}`) }), []string{"the description of parameter due_date only repeats its name"}},
		"choices": {change(func(s *toolyard.Spec) {
			s.Input = object(`"format":{"type":"string","description":"Format: json, csv, or xml"}`)
		}), []string{"the description of parameter format lists choices that its schema does not"}},
		"count": {change(func(s *toolyard.Spec) {
			s.Input = object(`"limit":{"type":"integer","description":"Number of rows"}`, "limit")
		}), []string{"parameter limit is required, but could have a default", "parameter limit has no maximum"}},
		"nested": {change(func(s *toolyard.Spec) {
			s.Input = object(`"options":{"type":"object","description":"How to do it","properties":{"deep":{"type":"boolean"}}}`)
		}), []string{"parameter options.deep has no description"}},
		"batch": {change(func(s *toolyard.Spec) {
			s.Limit = toolyard.Limit{PerMinute: 30, BatchTools: []string{"get_rate", "get_rates"}}
		}), []string{"_meta.rateLimit.recommendedBatchTools names get_rates, which does not exist", "_meta.rateLimit limits calls per minute, but not concurrent calls"}},
		"server": {change(func(s *toolyard.Spec) { s.Server, s.Name, s.Category = "github", "X", "external" }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range lint.Tools([]*toolyard.Tool{tool(t, tt.spec)}, func(*toolyard.Tool) bool { return true }) {
				if !p.Warning || p.Subject != tt.spec.Name || strings.HasSuffix(p.Message, ".") {
					t.Errorf("%+v", p)
				}
				got = append(got, p.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCategory(t *testing.T) {
	for word, want := range map[string]string{"": "", "news": "", "market-data": "market_data", "portfolios": "portfolio", "logistics": "", "text": ""} {
		if got := lint.Category(word); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
