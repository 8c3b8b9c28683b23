package jsonschema

import (
	"context"
	"errors"
	"sync"
)

// Validate returns the reasons why a JSON value does not match the schema. The error is a
// [SyntaxError], a [LimitError] or the context's error.
func (s *Schema) Validate(ctx context.Context, raw []byte) ([]Issue, error) {
	return s.validate(ctx, string(raw), limitsFor(len(raw)))
}

func (s *Schema) validate(ctx context.Context, raw string, l limits) (issues []Issue, err error) {
	e := s.begin(ctx, l)
	defer e.end()
	stop := run(func() {
		if err = e.read(raw); err == nil {
			issues = e.check(s)
		}
	})
	if stop != nil {
		return nil, stop
	}
	return issues, err
}

// validateValue validates a parsed value.
func (s *Schema) validateValue(ctx context.Context, v *value, l limits) (issues []Issue, err error) {
	e := s.begin(ctx, l)
	e.value = v
	err = run(func() { issues = e.check(s) })
	return issues, err
}

// pool reuses the memory of small validations.
var pool = sync.Pool{New: func() any { return &evaluation{value: &value{}} }}

func (s *Schema) begin(ctx context.Context, l limits) *evaluation {
	e := pool.Get().(*evaluation)
	v := e.value
	*e = evaluation{value: v, budget: newBudget(ctx, l), dynamic: s.dynamic}
	return e
}

// end returns the evaluation to the pool, unless it is large.
func (e *evaluation) end() {
	if cap(e.value.nodes) <= 1_024 {
		*e = evaluation{value: &value{nodes: e.value.nodes[:0]}}
		pool.Put(e)
	}
}

// read parses the value.
func (e *evaluation) read(raw string) error {
	p := parser{value: value{nodes: e.value.nodes[:0]}, budget: &e.budget, maxDepth: maxValueDepth}
	err := p.parse(raw)
	*e.value = p.value
	return err
}

// check validates the parsed value.
func (e *evaluation) check(s *Schema) []Issue {
	if e.valid(s.root, 0, &e.scopes, nil) {
		return nil
	}
	e.steps += e.limits.steps / 4 // extra steps for the explanation
	e.depth = 0
	x := explanation{evaluation: e}
	err := run(func() { x.explain(s.root, 0, &e.scopes) })
	if limit := (*LimitError)(nil); err != nil && !errors.As(err, &limit) {
		panic(stopped{err})
	}
	if len(x.issues) == 0 {
		return []Issue{{Message: "does not match the schema (the value is too complex to explain why)"}}
	}
	return x.issues
}
