package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// version makes each tool different from all previous ones.
var version atomic.Int64

func tools(names ...string) []*toolyard.Tool {
	var list []*toolyard.Tool
	for _, n := range names {
		list = append(list, toolyard.Define(toolyard.Spec{Name: n, Description: fmt.Sprint(version.Add(1))},
			func(context.Context, *toolyard.Call, struct{}) (string, error) { return n, nil }))
	}
	return list
}

func names(g *catalog.Generation) (list []string) {
	for _, t := range g.Tools {
		list = append(list, t.Name)
	}
	return list
}

// source adapts a function to a Source.
type source func(ctx context.Context, publish func(toolyard.Offer)) error

func (s source) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	return s(ctx, publish)
}

// run starts a catalog inside a synctest bubble and stops it at the end.
func run(t *testing.T, sources map[string]toolyard.Source, opts catalog.Options) *catalog.Catalog {
	c := catalog.New(sources, opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

func TestSimultaneousChangesFormOneGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := make(chan []*toolyard.Tool)
		c := run(t, map[string]toolyard.Source{
			"a": catalog.Static(tools("z", "a")),
			"b": source(func(ctx context.Context, publish func(toolyard.Offer)) error {
				publish(toolyard.Offer{Tools: tools("m")})
				for {
					select {
					case list := <-b:
						publish(toolyard.Offer{Tools: list})
					case <-ctx.Done():
						return nil
					}
				}
			}),
		}, catalog.Options{})
		<-c.Ready()
		first := c.Now()
		if diff := cmp.Diff([]string{"a", "m", "z"}, names(first)); diff != "" || first.Number != 1 {
			t.Errorf("generation %d %s", first.Number, diff)
		}
		for i := range 10 {
			b <- tools("m", fmt.Sprint("m", i))
		}
		<-first.Next()
		if diff := cmp.Diff([]string{"a", "m", "m9", "z"}, names(c.Now())); diff != "" || c.Now().Number != 2 {
			t.Errorf("generation %d %s", c.Now().Number, diff)
		}
		if diff := cmp.Diff([]string{"a", "m", "z"}, names(first)); diff != "" {
			t.Errorf("the first generation changed: %s", diff)
		}
	})
}

func TestEachChangeOfAToolIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		change := make(chan []*toolyard.Tool)
		c := run(t, map[string]toolyard.Source{
			"s": source(func(ctx context.Context, publish func(toolyard.Offer)) error {
				publish(toolyard.Offer{Tools: tools("a", "b")})
				publish(toolyard.Offer{Tools: <-change})
				<-ctx.Done()
				return nil
			}),
		}, catalog.Options{OnEvent: func(e catalog.Event) { events = append(events, fmt.Sprint(e.Kind, " ", e.Source, " ", e.Tool.Name)) }})
		<-c.Ready()
		first := c.Now()
		change <- tools("b", "c")
		<-first.Next()
		slices.Sort(events)
		if diff := cmp.Diff([]string{
			"TOOL_CHANGED s b",
			"TOOL_REGISTERED s a", "TOOL_REGISTERED s b", "TOOL_REGISTERED s c",
			"TOOL_REMOVED s a",
		}, events); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFailedSourceIsRestartedAndKeepsItsTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		published := tools("x")
		c := run(t, map[string]toolyard.Source{
			"good": catalog.Static(tools("g")),
			"bad": source(func(_ context.Context, publish func(toolyard.Offer)) error {
				switch runs.Add(1) {
				case 1:
					publish(toolyard.Offer{Tools: published})
					return errors.New("connection lost")
				case 2:
					panic("worse")
				}
				publish(toolyard.Offer{Tools: published})
				return nil
			}),
		}, catalog.Options{})
		<-c.Ready()
		time.Sleep(20 * time.Millisecond)
		g := c.Now()
		if diff := cmp.Diff([]string{"g", "x"}, names(g)); diff != "" || len(g.Problems) != 1 || g.Problems[0].Message != "connection lost" {
			t.Errorf("%v %s", g.Problems, diff)
		}
		time.Sleep(time.Minute)
		if g := c.Now(); len(g.Problems) != 0 || runs.Load() != 3 || len(g.Tools) != 2 {
			t.Errorf("%d runs, %+v", runs.Load(), g)
		}
	})
}

func TestASlowSourceDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, map[string]toolyard.Source{
			"quick": catalog.Static(tools("q")),
			"slow": source(func(ctx context.Context, _ func(toolyard.Offer)) error {
				<-ctx.Done()
				return nil
			}),
		}, catalog.Options{})
		<-c.Now().Next()
		if diff := cmp.Diff([]string{"q"}, names(c.Now())); diff != "" {
			t.Error(diff)
		}
		select {
		case <-c.Ready():
			t.Error("ready without the slow source")
		default:
		}
	})
}

func TestSetStartsAndStopsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := catalog.Static(tools("a")), catalog.Static(tools("b"))
		stays, ended := &counting{Static: a}, make(chan struct{})
		c := run(t, map[string]toolyard.Source{"a": stays, "b": source(func(ctx context.Context, publish func(toolyard.Offer)) error {
			defer close(ended)
			return b.Run(ctx, publish)
		})}, catalog.Options{})
		<-c.Ready()
		first := c.Now()
		c.Set(map[string]toolyard.Source{"a": stays, "c": &counting{Static: catalog.Static(tools("c"))}})
		<-ended
		<-first.Next()
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"a", "c"}, names(c.Now())); diff != "" || stays.runs != 1 {
			t.Errorf("%d runs, %s", stays.runs, diff)
		}
	})
}

type counting struct {
	catalog.Static
	runs int
}

func (s *counting) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	s.runs++
	return s.Static.Run(ctx, publish)
}

// A source that violates its contract does not affect others.
func TestBadSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := run(t, map[string]toolyard.Source{
			"good":  &counting{Static: catalog.Static(tools("g"))},
			"nil":   &counting{Static: catalog.Static{nil}},
			"empty": source(func(context.Context, func(toolyard.Offer)) error { return nil }),
		}, catalog.Options{})
		<-c.Ready()
		time.Sleep(time.Second)
		g := c.Now()
		if diff := cmp.Diff([]string{"g"}, names(g)); diff != "" || len(g.Problems) != 2 {
			t.Errorf("%v %s", g.Problems, diff)
		}
	})
}
