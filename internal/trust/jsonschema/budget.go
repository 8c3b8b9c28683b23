package jsonschema

import (
	"context"
	"fmt"
	"strconv"
)

// A validation may take baseSteps and stepsPerByte of its value; one step is about 20 ns.
// Honest values need a few steps for each of their members, so that the base is only for
// small values that meet large schemas.
const (
	baseSteps     = 400_000
	stepsPerByte  = 4
	baseMemory    = 6 << 20
	memoryPerByte = 40
	maxValueDepth = 1_000
	maxEvalDepth  = 6_000 // subschemas that are evaluated inside of each other
	checkEvery    = 2_048 // steps between two looks at the context
)

// LimitError reports that a validation was stopped because it spent its budget.
type LimitError struct {
	Limit string // what was limited, such as "400,000 steps"
}

func (e *LimitError) Error() string {
	return "validation stopped after " + e.Limit + ": the value is too complex for the schema; send less, or simpler data"
}

// budget is what one validation may still spend. When something is spent, it panics with
// stopped, which [run] recovers: no loop of the evaluator has to look for it.
type budget struct {
	ctx    context.Context
	limits limits
	steps  int // left
	next   int // when fewer are left, the context is looked at
	memory int // bytes left
}

type limits struct{ steps, memory int }

func limitsFor(size int) limits {
	return limits{steps: baseSteps + stepsPerByte*size, memory: baseMemory + memoryPerByte*size}
}

func newBudget(ctx context.Context, l limits) budget {
	return budget{ctx: ctx, limits: l, steps: l.steps, next: l.steps, memory: l.memory}
}

// stopped is panicked with the reason why a validation ends early.
type stopped struct{ err error }

// spend takes n steps.
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

// allocate takes n bytes of memory.
func (b *budget) allocate(n int) {
	if b.memory -= n; b.memory < 0 {
		panic(stopped{&LimitError{grouped(b.limits.memory>>10) + " KiB of memory"}})
	}
}

// run calls f until it ends or its budget is spent.
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

// grouped writes 1000000 as 1,000,000.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// SyntaxError reports that a value is not JSON.
type SyntaxError struct {
	Offset  int // bytes before the error
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON: %s (at byte %d)", e.Message, e.Offset)
}
