package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// stream is a live stream and the calls that it has reported.
type stream struct {
	mu   sync.Mutex
	seen map[string]int // number of reports per call
	lost int
}

// watch opens a live stream, which ends when ctx ends.
func (v *apiClient) watch(ctx context.Context) (*stream, error) {
	patient := &apiClient{v.base, v.token, &http.Client{Transport: v.http.Transport}}
	res, err := patient.send(ctx, http.MethodGet, "/calls/live", "")
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the live stream: %s", res.Status)
	}
	s := &stream{seen: make(map[string]int)}
	go func() {
		defer func() { _ = res.Body.Close() }()
		s.follow(res.Body)
	}()
	return s, nil
}

// follow reads a stream to its end.
func (s *stream) follow(body io.Reader) {
	lines := bufio.NewReader(body)
	event := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if kind, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(bytes.TrimSpace(kind))
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || event == "begin" {
			continue
		}
		var reported struct {
			ID    string
			Count int
		}
		_ = json.Unmarshal(data, &reported)
		s.mu.Lock()
		s.seen[reported.ID]++
		s.lost += reported.Count
		s.mu.Unlock()
	}
}

// check counts the calls that the stream did not report, or reported more than once, and how many
// events it lost.
func (s *stream) check(calls []string) (missing, again, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range calls {
		switch n := s.seen[id]; n {
		case 0:
			missing++
		default:
			again += n - 1
		}
	}
	return missing, again, s.lost
}

// operate simulates many operators, each with a live stream, while tools are called.
func (t scenario) operate(ctx context.Context, v *apiClient, p *history) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fmt.Printf("%d operators, each with a live stream and one request per second, and %d calls per second, for %v …\n\n", t.operators, t.perSecond, t.watching)
	var streams []*stream
	for range t.operators {
		s, err := v.watch(ctx)
		if err != nil {
			return 0, err
		}
		streams = append(streams, s)
	}
	r := &load{answers: newTimings(), client: v, queries: t.queries(p), until: time.Now().Add(t.watching)}
	for range t.operators {
		r.running.Go(func() { r.note("", r.look(ctx)) })
	}
	apart := time.Second / time.Duration(t.perSecond)
	for at := r.until.Add(-t.watching); at.Before(r.until); at = at.Add(apart) { // makes every call, even if it is late
		time.Sleep(time.Until(at))
		r.running.Go(func() { r.note(r.call(ctx)) })
	}
	r.running.Wait()
	if r.failed != nil {
		return 0, r.failed
	}
	return r.answers.print(), errors.Join(checkStreams(streams, r.made), r.answers.refusals())
}

// load is the concurrent load from operators and calls.
type load struct {
	answers *timings
	client  *apiClient
	queries []query
	until   time.Time
	running sync.WaitGroup

	mu     sync.Mutex
	made   []string // IDs of calls
	failed error
}

// note records a call or a failure.
func (r *load) note(call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if call != "" {
		r.made = append(r.made, call)
	}
	r.failed = errors.Join(r.failed, err)
}

// look simulates an operator who sends one query per second.
func (r *load) look(ctx context.Context) error {
	for time.Sleep(mathrand.N(time.Second)); time.Now().Before(r.until); time.Sleep(time.Second) {
		q := r.queries[mathrand.N(len(r.queries))]
		q.title, q.pages = "any of the above", 0
		if err := r.answers.run(ctx, r.client, &q); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool and returns the call's ID.
func (r *load) call(ctx context.Context) (string, error) {
	began := time.Now()
	data, err := r.client.do(ctx, http.MethodPost, "/calls", `{"tool":"echo","args":{"text":"hello world"},"gate":"default"}`)
	if err != nil {
		return "", err
	}
	r.answers.add("a tool call", time.Since(began), len(data))
	var answer struct{ Receipt struct{ Call string } }
	err = json.Unmarshal(data, &answer)
	return answer.Receipt.Call, err
}

// checkStreams checks that every stream eventually reports every call exactly once.
func checkStreams(streams []*stream, made []string) error {
	var missing, again, lost int
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		missing, again, lost = 0, 0, 0
		for _, s := range streams {
			m, a, l := s.check(made)
			missing, again, lost = missing+m, again+a, lost+l
		}
		if missing == 0 || time.Now().After(deadline) {
			break
		}
	}
	fmt.Printf("%d calls were made; %d streams together missed %d of them, repeated %d, and lost %d events.\n\n", len(made), len(streams), missing, again, lost)
	if missing > lost || again > 0 { // a stream that is read too slowly reports how many events it lost
		return fmt.Errorf("live streams missed %d of %d calls and repeated %d", missing, len(made)*len(streams), again)
	}
	return nil
}
