package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"time"

	"github.com/toolyard/toolyard"
)

// contractTools returns tools that record in a file when they ran, so that runs can be counted even
// if the process is killed. The configuration sets their limits and prices.
func contractTools(notes string) []*toolyard.Tool {
	type args struct {
		MS    int    `json:"ms,omitempty" doc:"How long to take" minimum:"0"`
		Fail  bool   `json:"fail,omitempty" doc:"Whether to fail"`
		Label string `json:"label,omitempty" doc:"Distinguishes calls" maxLength:"40"`
	}
	run := func(ctx context.Context, c *toolyard.Call, in args) (any, error) {
		n := note{Call: c.ID, Key: c.IdempotencyKey, Tool: c.Tool.Name, Caller: c.Caller.ID, Label: in.Label, PID: os.Getpid()}
		if err := n.write(notes, "began"); err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
		case <-ctx.Done():
		}
		if err := n.write(notes, "ended"); err != nil {
			return nil, err
		}
		if in.Fail {
			return nil, toolyard.Errorf(toolyard.Failed, "It failed as it was told to.")
		}
		return map[string]string{"call": c.ID, "nonce": rand.Text()}, nil
	}
	return []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "note_read", Description: "Notes its runs, and reads.", Effects: toolyard.ReadOnly}, run),
		toolyard.Define(toolyard.Spec{Name: "note_write", Description: "Notes its runs, and writes."}, run),
		toolyard.Define(toolyard.Spec{Name: "note_free", Description: "Notes its runs, and costs nothing.", Effects: toolyard.ReadOnly}, run),
		toolyard.Define(toolyard.Spec{Name: "note_paced", Description: "Notes its runs, and is limited.", Effects: toolyard.ReadOnly}, run),
	}
}

// note is a line in the file.
type note struct {
	Event  string    `json:"event"` // began or ended
	At     time.Time `json:"at"`
	Call   string    `json:"call"`
	Key    string    `json:"key,omitempty"`
	Tool   string    `json:"tool"`
	Caller string    `json:"caller"`
	Label  string    `json:"label,omitempty"`
	PID    int       `json:"pid"`
}

// write appends the note to a file that all replicas share. It does nothing if there is no file.
func (n note) write(path, event string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	n.Event, n.At = event, time.Now()
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return err
}
