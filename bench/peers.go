package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// contest compares gateways, using clients of one MCP version and one server behind the gateways.
type contest struct {
	name, title string
	legacy      bool   // clients of 2025-11-25 with sessions; otherwise, clients of 2026-07-28
	server      string // contender behind the gateways; empty if they start the server themselves
	may         func(*gateway) bool
}

var contests = []contest{
	{"http", "Clients of 2025-11-25 with sessions, one go-sdk server of 2025-11-25 over streamable HTTP", true, "sessions", func(g *gateway) bool { return g.http }},
	{"stdio", "Clients of 2025-11-25 with sessions, one go-sdk server on stdio", true, "", func(g *gateway) bool { return g.stdio }},
	{"modern", "Clients of 2026-07-28, one go-sdk server of both eras over streamable HTTP", false, "sdk", func(g *gateway) bool { return g.modern }},
}

// measurePeers compares the toolyard program with other gateways, each a separate process with
// default settings.
func measurePeers(ctx context.Context, quick bool, binary, only, some string) error {
	turn, turns, idle := 2*time.Second, 5, 2000
	if quick {
		turn, turns, idle = time.Second, 2, 500
	}
	all := slices.DeleteFunc(gateways(binary), func(g gateway) bool { return !strings.Contains(g.title, some) })
	for _, c := range contests {
		if only != "" && only != c.name {
			continue
		}
		if err := c.measure(ctx, all, turn, turns); err != nil {
			return err
		}
	}
	if only != "" && only != "idle" {
		return nil
	}
	return measureIdle(ctx, all, idle)
}

// start starts a contest's server and every gateway that supports it. Gateways that do not start
// are listed with the reason.
func (c *contest) start(ctx context.Context, all []gateway) (rivals []*rival, missing []string, stop func(), err error) {
	to := target{}
	stops := []func(){}
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	if c.server == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, nil, nil, err
		}
		to.command = []string{self, "-serve", "stdio"}
	} else {
		server, err := start(ctx, c.server, 0)
		if err != nil {
			return nil, nil, nil, err
		}
		to.addr, stops = server.addr, append(stops, server.stop)
	}
	for _, g := range all {
		if !c.may(&g) {
			continue
		}
		r, err := g.run(ctx, to)
		if err != nil {
			missing = append(missing, fmt.Sprintf("| %s | not measured: %.300s |", g.title, strings.Join(strings.Fields(err.Error()), " ")))
			continue
		}
		rivals, stops = append(rivals, r), append(stops, r.stop)
	}
	return rivals, missing, stop, nil
}

func (c *contest) measure(ctx context.Context, all []gateway, turn time.Duration, turns int) error {
	rivals, missing, stop, err := c.start(ctx, all)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%s\n\n| gateway | connections | calls/s | CPU of the gateway per call | p50 / p99 | refused |\n|---|---|---|---|---|---|\n", c.title)
	for _, connections := range []int{8, 64} {
		scores := make([][]score, len(rivals))
		for t := range turns + 1 {
			for i, r := range rivals {
				s, err := r.play(ctx, c.legacy, connections, turn)
				if err != nil {
					return fmt.Errorf("%s: %w", r.title, err)
				}
				if t > 0 { // the first turn is a warm-up
					scores[i] = append(scores[i], s)
				}
			}
		}
		for i, r := range rivals {
			fmt.Printf("| %s | %d | %s |\n", r.title, connections, medianOf(scores[i]))
		}
	}
	for _, line := range missing {
		fmt.Println(line)
	}
	fmt.Println()
	return nil
}

// score is the result of one gateway's turn.
type score struct {
	perSecond float64
	cpu       time.Duration // CPU time of the gateway's process per successful call
	p50, p99  time.Duration
	refused   float64 // share of calls that have no result
}

// play calls echo on n connections.
func (r *rival) play(ctx context.Context, legacy bool, connections int, d time.Duration) (s score, err error) {
	before, err := r.ownCPU()
	if err != nil {
		return s, err
	}
	var mu sync.Mutex
	var took []time.Duration
	var refused int
	var failed error
	var wg sync.WaitGroup
	began := time.Now()
	for range connections {
		wg.Go(func() {
			good, bad, err := r.callUntil(ctx, legacy, began.Add(d))
			mu.Lock()
			defer mu.Unlock()
			took, refused, failed = append(took, good...), refused+bad, cmp.Or(failed, err)
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	after, err := r.ownCPU()
	if err = cmp.Or(failed, err); err != nil {
		return s, err
	}
	if len(took) == 0 {
		return s, errors.New("no call succeeded")
	}
	slices.Sort(took)
	return score{
		float64(len(took)) / elapsed.Seconds(), (after - before) / time.Duration(len(took)),
		took[len(took)/2], took[len(took)*99/100], float64(refused) / float64(len(took)+refused),
	}, nil
}

// callUntil makes calls on one connection, which it reopens when it is closed.
func (r *rival) callUntil(ctx context.Context, legacy bool, until time.Time) (took []time.Duration, refused int, err error) {
	for time.Now().Before(until) && ctx.Err() == nil {
		c, err := r.dial(legacy)
		if errors.Is(err, errRefused) {
			refused++
			continue
		}
		if err != nil {
			return took, refused, err
		}
		for time.Now().Before(until) {
			t, err := c.call()
			if err == nil {
				took = append(took, t)
				continue
			}
			refused++
			if !errors.Is(err, errRefused) {
				break
			}
		}
		c.close()
	}
	return took, refused, nil
}

// medianOf returns the median of each figure, as table cells.
func medianOf(scores []score) string {
	middle := func(of func(score) float64) float64 {
		figures := make([]float64, len(scores))
		for i, s := range scores {
			figures[i] = of(s)
		}
		slices.Sort(figures)
		return figures[len(figures)/2]
	}
	cpu := "–"
	if micros := middle(func(s score) float64 { return float64(s.cpu.Microseconds()) }); micros > 0 {
		cpu = fmt.Sprintf("%.0f µs", micros)
	}
	return fmt.Sprintf("%.0f | %s | %.1f / %.1f ms | %.1f %%", middle(func(s score) float64 { return s.perSecond }), cpu,
		middle(func(s score) float64 { return s.p50.Seconds() * 1e3 }), middle(func(s score) float64 { return s.p99.Seconds() * 1e3 }),
		middle(func(s score) float64 { return s.refused * 100 }))
}

// measureIdle measures the memory used by idle clients with sessions.
func measureIdle(ctx context.Context, all []gateway, n int) error {
	c := &contests[0]
	rivals, missing, stop, err := c.start(ctx, slices.DeleteFunc(slices.Clone(all), func(g gateway) bool { return g.install == nil })) // excludes gateways that keep no sessions
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("Memory for each of %d idle clients of 2025-11-25\n\n| gateway | per session | plus its GET stream |\n|---|---|---|\n", n)
	for _, r := range rivals {
		session, stream, err := r.idle(n)
		if err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		fmt.Printf("| %s | %s | %s |\n", r.title, session, stream)
	}
	for _, line := range missing {
		fmt.Println(line)
	}
	fmt.Println()
	return nil
}

// idle opens n sessions and then their streams.
func (r *rival) idle(n int) (session, stream string, err error) {
	if _, _, err = r.open(100); err != nil { // warm up
		return "", "", err
	}
	session, clients, err := r.growth(n, func() ([]*mcpClient, int, error) { return r.open(n) })
	if err != nil {
		return "", "", err
	}
	stream, listening, err := r.growth(n, func() ([]*mcpClient, int, error) { return r.openStreams(clients) })
	for _, l := range listening {
		l.close()
	}
	return session, stream, err
}

// openStreams opens the clients' streams.
func (r *rival) openStreams(clients []*mcpClient) (listening []*mcpClient, refused int, err error) {
	for _, c := range clients {
		l, err := r.listen(c.session)
		if err != nil {
			return listening, 0, err
		}
		listening = append(listening, l)
	}
	time.Sleep(time.Second)
	for _, l := range listening {
		if !l.listens() {
			refused++
		}
	}
	return listening, refused, nil
}

// growth returns the gateway's additional memory per client.
func (r *rival) growth(n int, open func() ([]*mcpClient, int, error)) (string, []*mcpClient, error) {
	before, err := r.settled()
	if err != nil {
		return "", nil, err
	}
	clients, refused, err := open()
	if err != nil {
		return "", nil, err
	}
	after, err := r.settled()
	cell := fmt.Sprintf("%.1f KiB", float64(after-before)/float64(max(n-refused, 1))/1024)
	if refused > 0 {
		cell += fmt.Sprintf(" (%d refused)", refused)
	}
	return cell, clients, err
}

// settled returns the gateway's memory once it is stable.
func (r *rival) settled() (int64, error) {
	time.Sleep(2 * time.Second)
	return r.resident()
}

// open opens sessions and closes their connections.
func (r *rival) open(n int) (clients []*mcpClient, refused int, err error) {
	for range n {
		c, err := r.connect(true)
		if errors.Is(err, errRefused) {
			refused++
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		c.close()
		clients = append(clients, c)
	}
	return clients, refused, nil
}
