package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
)

// broker is a client that is available only to write calls.
type broker interface {
	// Order places an order and returns the number of orders.
	Order() int64
}

type countingBroker struct{ orders atomic.Int64 }

func (b *countingBroker) Order() int64 { return b.orders.Add(1) }

var theBroker = &countingBroker{}

// fidelity is a result that survives only if it is never decoded: it has a property order, a big
// integer, number formats, unknown fields, an unknown content type, and markup.
const fidelity = `{"zeta":1,"content":[{"type":"hologram","beam":1.10,"<&>":"é\u00e9"},{"type":"text","text":"hi","later":9007199254740993}],` +
	`"structuredContent":{"zeta":1,"alpha":9007199254740993,"f":1.10,"e":1E2},"_meta":{"z":9007199254740993,"a":null},"resultType":"complete","future":{"b":1,"a":2}}`

// acceptanceTools returns the tools that the acceptance tests use.
func acceptanceTools(extra *changing) []*toolyard.Tool {
	type barArgs struct {
		Symbol   string `json:"symbol" doc:"Perp symbol, such as BTC"`
		Interval string `json:"interval" enum:"1m,5m,15m,1h,4h,1d"`
		Lookback int    `json:"lookback" minimum:"1" maximum:"500"`
	}
	type risk struct {
		Score int `json:"riskScore" minimum:"0" maximum:"100"`
	}
	type scoreArgs struct {
		Score int `json:"score"`
	}
	type divideArgs struct {
		Dividend int `json:"dividend"`
		Divisor  int `json:"divisor"`
	}
	type quotient struct {
		Quotient int `json:"quotient"`
	}
	type sleepArgs struct {
		MS     int    `json:"ms" minimum:"0"`
		Marker string `json:"marker,omitempty" doc:"A file to write when canceled; another one with the suffix .started is written at the start"`
		Until  string `json:"until,omitempty" doc:"A file that ends the sleep once it exists"`
	}
	type echoArgs struct {
		Text string `json:"text"`
	}
	return []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{
			Name: "fetch_recent_bars", Category: "market_data", Effects: toolyard.ReadOnly,
			Description: "Get recent price bars of a perp.", Hint: "Use to read recent price action before deciding to trade",
		}, func(_ context.Context, _ *toolyard.Call, in barArgs) (any, error) {
			return map[string]int{"bars": in.Lookback}, nil
		}),
		toolyard.Define(toolyard.Spec{Name: "propose_order", Category: "execution", Description: "Proposes an order."},
			func(_ context.Context, c *toolyard.Call, _ struct{}) (any, error) {
				b, ok := toolyard.Client[broker](c)
				if !ok {
					return nil, errors.New("no broker")
				}
				return b.Order(), nil
			}),
		toolyard.Define(toolyard.Spec{Name: "dump_context", Description: "Tells what a call knows.", Category: "introspection", Effects: toolyard.ReadOnly},
			func(_ context.Context, c *toolyard.Call, _ struct{}) (any, error) {
				_, ok := toolyard.Client[broker](c)
				return map[string]any{"mode": c.Mode, "gate": c.Gate, "broker": ok, "orders": theBroker.orders.Load(), "caller": c.Caller.ID}, nil
			}),
		toolyard.Define(toolyard.Spec{Name: "score", Description: "Returns a score, good or bad."},
			func(_ context.Context, _ *toolyard.Call, in scoreArgs) (risk, error) { return risk(in), nil }),
		toolyard.Define(toolyard.Spec{Name: "divide", Description: "Divides, and fails for zero.", Effects: toolyard.ReadOnly},
			func(_ context.Context, _ *toolyard.Call, in divideArgs) (quotient, error) {
				if in.Divisor == 0 {
					return quotient{}, errors.New("division by zero")
				}
				return quotient{in.Dividend / in.Divisor}, nil
			}),
		toolyard.Define(toolyard.Spec{Name: "sleep", Description: "Sleeps.", Effects: toolyard.ReadOnly},
			func(ctx context.Context, _ *toolyard.Call, in sleepArgs) (string, error) {
				if in.Marker != "" {
					if err := os.WriteFile(in.Marker+".started", nil, 0o600); err != nil {
						return "", err
					}
				}
				select {
				case <-time.After(time.Duration(in.MS) * time.Millisecond):
					return "slept", nil
				case <-exists(ctx, in.Until):
					return "slept", nil
				case <-ctx.Done():
					if in.Marker != "" {
						return "", os.WriteFile(in.Marker, []byte("cleaned"), 0o600)
					}
					return "", ctx.Err()
				}
			}),
		toolyard.Define(toolyard.Spec{Name: "meet", Description: "Waits for another call of this tool.", Effects: toolyard.ReadOnly}, meet),
		toolyard.Define(toolyard.Spec{Name: "log_id", Description: "Logs a line.", Effects: toolyard.ReadOnly},
			func(_ context.Context, c *toolyard.Call, in echoArgs) (string, error) {
				c.Logger().Info("inside", "text", in.Text)
				return in.Text, nil
			}),
		toolyard.Define(toolyard.Spec{Name: "echo", Description: "Returns its text.", Effects: toolyard.ReadOnly},
			func(_ context.Context, _ *toolyard.Call, in echoArgs) (string, error) { return in.Text, nil }),
		plain("throw", "Fails with boom.", func(context.Context, *toolyard.Call) (any, error) { return nil, errors.New("boom") }),
		plain("crash", "Panics.", func(context.Context, *toolyard.Call) (any, error) { panic("crash") }),
		plain("fidelity", "Returns bytes that must not change.", func(context.Context, *toolyard.Call) (any, error) {
			res := &toolyard.Result{}
			return res, json.Unmarshal([]byte(fidelity), res)
		}),
		plain("flip", "Replaces the tool that changes.", func(context.Context, *toolyard.Call) (any, error) {
			extra.flips <- struct{}{}
			return "flipped", nil
		}),
	}
}

// exists returns a channel that is closed once a file exists. The channel is nil if the name is
// empty.
func exists(ctx context.Context, name string) <-chan struct{} {
	if name == "" {
		return nil
	}
	found := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(name); err == nil {
				close(found)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return found
}

// meeting connects pairs of calls to the tool meet.
var meeting = make(chan struct{})

// meet returns when two calls run at the same time.
func meet(ctx context.Context, _ *toolyard.Call, _ struct{}) (string, error) {
	select {
	case meeting <- struct{}{}:
	case <-meeting:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return "met", nil
}
