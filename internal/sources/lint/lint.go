// Package lint finds tool definitions that work but are hard for models or people to use. It checks
// only tools that their users can change, not those of MCP servers.
package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
)

// categories are the category names that clients and catalogs of trading tools use.
var categories = []string{"market_data", "news", "portfolio", "execution", "introspection"}

// Category returns the category that word probably misspells, or "".
func Category(word string) string {
	if word == "" || slices.Contains(categories, word) {
		return ""
	}
	plain := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(word))
	if slices.Contains(categories, plain) {
		return plain
	}
	return spelling.Nearest(word, categories)
}

// maxProperties is the maximum number of a tool's parameters that are examined.
const maxProperties = 200

// Tools returns advice about the local tools selected by own, in the order of the tools.
func Tools(tools []*toolyard.Tool, own func(*toolyard.Tool) bool) (advice []toolyard.Problem) {
	names := make(map[string]bool, len(tools))
	for _, t := range tools {
		names[t.Name] = true
	}
	for _, t := range tools {
		if t.Server != "" || !own(t) {
			continue
		}
		l := &linter{tool: t}
		l.names()
		l.description()
		l.effects()
		l.parameters("", t.CallerInput())
		l.limits(names)
		advice = append(advice, l.advice...)
	}
	return advice
}

// linter collects advice about one tool.
type linter struct {
	tool   *toolyard.Tool
	advice []toolyard.Problem
}

func (l *linter) add(fix, format string, args ...any) {
	l.advice = append(l.advice, toolyard.Problem{
		Source: "lint", Subject: l.tool.Name, File: l.tool.Origin, Message: fmt.Sprintf(format, args...), Fix: fix, Warning: true,
	})
}

var snakeCase = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func (l *linter) names() {
	if !snakeCase.MatchString(l.tool.Name) {
		l.add("Use snake_case, with a verb first: fetch_recent_bars.", "the name is not in snake_case")
	}
	if c := l.tool.Category; c != "" && !snakeCase.MatchString(c) {
		l.add("", "category %q is not in snake_case", c)
	}
	if near := Category(l.tool.Category); near != "" {
		l.add("", "category %q is unknown%s", l.tool.Category, spelling.Hint(near))
	}
}

// minWords is the minimum number of words in a useful description.
const minWords = 3

func (l *linter) description() {
	const fix = `State what it does and when to use it: "Generates a random UUID v4", not "Random tool".`
	words := strings.Fields(l.tool.Description)
	if last := len(words) - 1; len(words) < minWords || len(words) < 5 && strings.EqualFold(strings.Trim(words[last], "."), "tool") {
		l.add(fix, "description %q is too vague", l.tool.Description)
	}
	for _, kind := range l.tool.Contexts {
		if !strings.Contains(strings.ToLower(l.tool.Description), strings.ToLower(kind)) {
			l.add(fmt.Sprintf("For example: %q", "Requires a linked "+kind+" account."), "the description does not mention that the tool needs the caller's %s data", kind)
		}
	}
}

func (l *linter) effects() {
	if l.tool.Modes() == nil {
		l.add(`Declare modes: ["read"] if it changes nothing, ["write"] otherwise.`, "the tool does not declare whether it is read-only, so it counts as a write")
	}
}

// property holds the parts of a parameter that are examined.
type property struct {
	Type        any
	Description string
	Enum        []any
	Const       any
	Default     json.RawMessage
	Maximum     json.RawMessage
	Properties  map[string]json.RawMessage
	Ref         string `json:"$ref"`
}

var (
	choices   = regexp.MustCompile(`(?i)(:|one of|either)\s*["'\w-]+(\s*,\s*["'\w-]+)*\s*,?\s+or\s+["'\w-]+`)
	countName = regexp.MustCompile(`(?i)^(limit|count|top|max_?results|page_?size|lookback)$`)
)

func (l *linter) parameters(prefix string, schema json.RawMessage) {
	var object struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if json.Unmarshal(schema, &object) != nil || len(object.Properties) > maxProperties {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		var p property
		if json.Unmarshal(object.Properties[name], &p) != nil {
			continue
		}
		l.parameter(prefix+name, name, &p, slices.Contains(object.Required, name))
		if len(p.Properties) > 0 && strings.Count(prefix, ".") < 3 {
			l.parameters(prefix+name+".", object.Properties[name])
		}
	}
}

func (l *linter) parameter(path, name string, p *property, required bool) {
	label := strings.Trim(strings.ToLower(p.Description), " .")
	switch {
	case p.Description == "" && p.Ref == "":
		l.add(`Describe it: z.string().describe("The email address to validate").`, "parameter %s has no description", path)
	case label == strings.ToLower(strings.ReplaceAll(name, "_", " ")) || label == strings.ToLower(name):
		l.add(`Say what it is: "The email address to validate", not "email".`, "the description of parameter %s only repeats its name", path)
	}
	if p.Type == "string" && p.Enum == nil && p.Const == nil && choices.MatchString(p.Description) {
		l.add(`Use an enum: z.enum(["json", "csv", "xml"]).`, "the description of parameter %s lists choices that its schema does not", path)
	}
	if (p.Type == "number" || p.Type == "integer") && countName.MatchString(name) {
		if required && p.Default == nil {
			l.add("Provide one: z.number().default(10).", "parameter %s is required, but could have a default", path)
		}
		if p.Maximum == nil {
			l.add("Bound it: z.number().int().min(1).max(100).", "parameter %s has no maximum", path)
		}
	}
}

// lowQuota is the highest number of calls per minute for which a burst can exceed a service's
// quota.
const lowQuota = 60

func (l *linter) limits(names map[string]bool) {
	for _, batch := range l.tool.Limit.BatchTools {
		if !names[batch] {
			l.add("", "_meta.rateLimit.recommendedBatchTools names %s, which does not exist", batch)
		}
	}
	if limit := l.tool.Limit; 0 < limit.PerMinute && limit.PerMinute <= lowQuota && limit.Concurrency == 0 && limit.Cooldown == 0 {
		l.add("Also set maxConcurrency: a burst of concurrent calls can exceed a service's quota within a second.", "_meta.rateLimit limits calls per minute, but not concurrent calls")
	}
}
