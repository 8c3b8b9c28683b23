package model_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolyard/toolyard/acceptance/fakemodel"
	"github.com/toolyard/toolyard/agent/model"
)

// processorTime returns the CPU time that this process has used, in nanoseconds.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTurn measures the CPU time of a turn over HTTP, including the server's side of the
// connection. It is the second turn of a conversation with thinking, text and two calls, and it has
// 100 functions. The server replays a response.
func BenchmarkTurn(b *testing.B) {
	turn := fakemodel.Turn{
		Think: "Let me see.", Say: "The rate in France is 20 percent and in Germany 19 percent.",
		Call: []fakemodel.Call{{Name: "f1", Arguments: []byte(`{"a":"IT"}`)}, {Name: "f2", Arguments: []byte(`{"a":"ES"}`)}},
	}
	for _, api := range apis {
		b.Run(string(api), func(b *testing.B) {
			response := fakemodel.Stream(string(api), &turn, 1, nil)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write(response)
			}))
			defer server.Close()
			client, err := model.New(model.Options{API: api, URL: server.URL, Model: "m", Private: true})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			r := &model.Request{System: strings.Repeat("Be brief. ", 100), Messages: []model.Message{{Text: "hello"}}}
			for i := range 100 {
				r.Tools = append(r.Tools, model.Function{
					Name: fmt.Sprintf("f%d", i), Description: strings.Repeat("Does something useful. ", 10),
					Parameters: []byte(`{"type":"object","properties":{"a":{"type":"string","description":"A country."}},"required":["a"]}`),
				})
			}
			first, err := client.Turn(b.Context(), r, nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Messages = append(r.Messages, model.Message{Turn: first}, model.Message{Answers: []model.Answer{
				{ID: first.Calls[0].ID, Text: "20"}, {ID: first.Calls[1].ID, Text: "19"},
			}})
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if _, err := client.Turn(b.Context(), r, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processorTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// A turn that waits for the model uses less than 256 KiB, even counting the server's side of the
// connection.
func TestMemoryWhileWaiting(t *testing.T) {
	const turns, maxEach = 64, 256 << 10
	var waiting sync.WaitGroup
	waiting.Add(turns)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": waiting\n\n")
		_ = http.NewResponseController(w).Flush()
		waiting.Done()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := model.New(model.Options{API: model.Chat, URL: server.URL, Model: "m", Private: true, Connections: turns, Idle: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := inUse()
	for range turns {
		go func() {
			r := &model.Request{Messages: []model.Message{{Text: strings.Repeat("A long question. ", 1000)}}}
			_, _ = client.Turn(t.Context(), r, nil)
		}()
	}
	waiting.Wait()
	each := (inUse() - before) / turns
	t.Logf("%d KiB for each turn", each>>10)
	if each > maxEach {
		t.Errorf("a waiting turn holds %d bytes, at most %d are allowed", each, maxEach)
	}
	server.CloseClientConnections()
}
