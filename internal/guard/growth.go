package guard

import (
	"errors"
	"math"
	"strings"
)

// A value is met by all schemas that its place leads to without consuming anything of it;
// each part of the value is met by what these say about that part. A schema that refers to
// itself through one part twice, such as by two branches that both describe the items of a
// list, meets a part of a part four times, and so on: the work doubles with every level.

// depth is how deep a value may nest so that validating it takes no more than maxSteps, 0
// for no bound.
func (c *schemaChecker) depth() (int, error) {
	growth, err := c.growth()
	if err != nil || growth < 2 {
		return 0, err
	}
	return max(1, int(math.Log(maxSteps)/math.Log(float64(growth)))), nil
}

// maxCircles is how many schemas are met, all in all, by what leads back to itself.
const maxCircles = 200_000

// growth is by how much the work grows with a level of nesting, at worst: the most schemas
// of one circle that meet the same part of a value that one of them meets.
func (c *schemaChecker) growth() (most int, err error) {
	circle, work := c.circles(), 0
	for at := range circle {
		met := make(map[string]int) // by part
		for _, place := range c.atOnce(at) {
			subs := c.parts(place)
			if work += 1 + len(subs); work > maxCircles {
				return 0, errors.New("the schema refers to itself in too many ways")
			}
			for _, sub := range subs {
				if circle[sub.at] == circle[at] {
					met[sub.part]++
				}
			}
		}
		most = max(most, worst(met))
	}
	return most, nil
}

// partSchema is a schema for a part of a value.
type partSchema struct{ at, part string }

// parts are the schemas that a schema has for parts of its value, found once.
func (c *schemaChecker) parts(at string) []partSchema {
	if subs, ok := c.subs[at]; ok {
		return subs
	}
	o, _ := c.places[at].(map[string]any)
	subs := []partSchema{}
	for _, sub := range children(o, at, partOne, []string{"items", "prefixItems"}, partNamed) {
		if part := partOf(at, sub.at); part != "" {
			subs = append(subs, partSchema{sub.at, part})
		}
	}
	c.subs[at] = subs
	return subs
}

// worst is how many schemas meet one part at most: those for it by name, and those for all.
func worst(met map[string]int) (most int) {
	for part, n := range met {
		if kind, _, named := strings.Cut(part, "/"); named {
			n += met[kind]
		}
		most = max(most, n)
	}
	return most
}

// partOf says which part of a value a subschema is for: a member by its name, an item by its
// index, or any of either kind; empty for none, or one that has no parts itself.
func partOf(at, sub string) string {
	keyword, name, named := strings.Cut(strings.TrimPrefix(sub, at+"/"), "/")
	switch keyword {
	case "properties":
		return "member/" + name
	case "prefixItems", "items":
		if named {
			return "item/" + name
		}
		return "item"
	case "contains", "additionalItems", "unevaluatedItems":
		return "item"
	case "$defs", "definitions", "contentSchema", "propertyNames":
		return ""
	}
	return "member"
}

// atOnce are all places whose schemas a value meets that meets the one at a place, each as
// often as it is met.
func (c *schemaChecker) atOnce(at string) []string {
	places := []string{at}
	for i := 0; i < len(places) && len(places) <= maxExpansions; i++ {
		o, _ := c.places[places[i]].(map[string]any)
		places = append(places, c.sameValue(o, places[i])...)
	}
	return places
}

// circles numbers the places that lead back to themselves; those of one circle have one
// number, others have none.
func (c *schemaChecker) circles() map[string]int {
	t := &tarjan{checker: c, index: make(map[string]int), low: make(map[string]int), onStack: make(map[string]bool), circle: make(map[string]int)}
	for at := range c.places {
		if t.index[at] == 0 {
			t.visit(at)
		}
	}
	return t.circle
}

// tarjan finds strongly connected components.
type tarjan struct {
	checker *schemaChecker
	count   int
	index   map[string]int
	low     map[string]int
	stack   []string
	onStack map[string]bool
	circle  map[string]int
}

func (t *tarjan) visit(at string) {
	t.count++
	t.index[at], t.low[at] = t.count, t.count
	t.stack, t.onStack[at] = append(t.stack, at), true
	self := false
	for _, next := range t.next(at) {
		self = self || next == at
		if t.index[next] == 0 {
			t.visit(next)
			t.low[at] = min(t.low[at], t.low[next])
		} else if t.onStack[next] {
			t.low[at] = min(t.low[at], t.index[next])
		}
	}
	if t.low[at] != t.index[at] {
		return
	}
	for alone := t.stack[len(t.stack)-1] == at && !self; ; {
		last := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.onStack[last] = false
		if !alone {
			t.circle[last] = t.index[at]
		}
		if last == at {
			return
		}
	}
}

// next are the places that a value, or a part of it, is led to from a place.
func (t *tarjan) next(at string) (places []string) {
	o, _ := t.checker.places[at].(map[string]any)
	places = t.checker.sameValue(o, at)
	for _, sub := range t.checker.parts(at) {
		places = append(places, sub.at)
	}
	return places
}
