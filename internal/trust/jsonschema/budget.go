package jsonschema

import (
	"context"
	"fmt"
	"strconv"
)

// The budget of a validation is baseSteps plus stepsPerByte for each byte of the value. A step
// takes about 20 ns. Typical values need a few steps per member. The base allows for small values
// with large schemas.
const (
	baseSteps     = 400_000
	stepsPerByte  = 4
	baseMemory    = 6 << 20
	memoryPerByte = 40
	maxValueDepth = 1_000
	maxEvalDepth  = 6_000 // maximum nesting of subschemas during evaluation
	checkEvery    = 2_048 // steps between checks of the context
)

// LimitError reports that a validation was stopped because it used up its budget.
type LimitError struct {
	Limit string // the limit, such as "400,000 steps"
}

func (e *LimitError) Error() string {
	return "validation stopped after " + e.Limit + ": the value is too complex for the schema; send less or simpler data"
}

// budget is the remaining budget of one validation. When it is used up, it panics with stopped,
// which [run] recovers, so that the evaluator does not have to check for errors everywhere.
type budget struct {
	ctx    context.Context
	limits limits
	steps  int // remaining steps
	next   int // the context is checked when fewer steps remain
	memory int // remaining bytes
}

type limits struct{ steps, memory int }

func limitsFor(size int) limits {
	return limits{steps: baseSteps + stepsPerByte*size, memory: baseMemory + memoryPerByte*size}
}

func newBudget(ctx context.Context, l limits) budget {
	return budget{ctx: ctx, limits: l, steps: l.steps, next: l.steps, memory: l.memory}
}

// stopped is the panic value that ends a validation early.
type stopped struct{ err error }

// spend uses n steps.
func (b *budget) spend(n int) {
	if b.steps -= n; b.steps < b.next {
		b.look()
	}
}

func (b *budget) look() {
	if b.steps < 0 {
		panic(stopped{&LimitError{grouped(b.limits.steps) + " steps"}})
	}
	if err := b.ctx.Err(); err != nil {
		panic(stopped{err})
	}
	b.next = b.steps - checkEvery
}

// allocate uses n bytes of memory.
func (b *budget) allocate(n int) {
	if b.memory -= n; b.memory < 0 {
		panic(stopped{&LimitError{grouped(b.limits.memory>>10) + " KiB of memory"}})
	}
}

// run calls f and returns an error if the budget is used up or the context ends.
func run(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			err = p.err
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// grouped formats 1000000 as 1,000,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// SyntaxError reports that a value is not JSON.
type SyntaxError struct {
	Offset  int // number of bytes before the error
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON: %s (at byte %d)", e.Message, e.Offset)
}
