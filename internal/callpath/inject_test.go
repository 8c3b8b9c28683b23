package callpath_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
)

type providerFunc func(context.Context, toolyard.Caller, time.Time) (json.RawMessage, error)

func (f providerFunc) Provide(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	return f(ctx, caller, asOf)
}

// says returns a provider with a fixed response.
func says(value string, err error) toolyard.ContextProvider {
	return providerFunc(func(context.Context, toolyard.Caller, time.Time) (json.RawMessage, error) {
		return json.RawMessage(value), err
	})
}

// withContext calls a tool that requires the kinds and returns the arguments that it received.
func withContext(ctx context.Context, needs, rawArgs string, providers map[string]toolyard.ContextProvider) (ran string, _ *toolyard.Error) {
	t, err := toolyard.NewTool(toolyard.Spec{Name: "t", Terms: toolyard.Terms{Contexts: strings.Fields(needs)}}, func(_ context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		ran = string(c.Args)
		return nil, nil
	})
	if err != nil {
		panic(err)
	}
	_, failed := callIn(ctx, t, rawArgs, callpath.Inject(slog.New(slog.DiscardHandler), func(kind string) toolyard.ContextProvider { return providers[kind] }), callpath.Validate(time.Minute))
	return ran, failed
}

func TestInject(t *testing.T) {
	providers := map[string]toolyard.ContextProvider{"wallet": says(` {"w":1.0} `, nil), "hyperliquid": says(`{"h":2}`, nil)}
	for _, tt := range []struct{ needs, args, want string }{
		{"", `{"portfolio":1}`, `{"portfolio":1}`},
		{"wallet", ``, `{"portfolio":{"w":1.0}}`},
		{"wallet", `null`, `{"portfolio":{"w":1.0}}`},
		{"wallet", ` { } `, `{"portfolio":{"w":1.0}}`},
		{"wallet", `{"a": 1.0 ,"portfolio":{"w":"forged"}, "b\u0041":[ 1,2 ]}`, `{"a": 1.0,"b\u0041":[ 1,2 ],"portfolio":{"w":1.0}}`},
		{"wallet", `{"portfolio":1,"a":2,"portfolio":3,"Portfolio":4,"port\u0066olio":5}`, `{"a":2,"portfolio":{"w":1.0}}`},
		{"wallet wallet", `{"walletPortfolio":1}`, `{"walletPortfolio":1,"portfolio":{"w":1.0}}`},
		{"wallet hyperliquid", `{"portfolio":1,"walletPortfolio":2}`, `{"portfolio":1,"hyperliquidPortfolio":{"h":2},"walletPortfolio":{"w":1.0}}`},
	} {
		if ran, err := withContext(t.Context(), tt.needs, tt.args, providers); err != nil || ran != tt.want {
			t.Errorf("%q with %s ran with %s (%v)", tt.needs, tt.args, ran, err)
		}
	}
	for _, args := range []string{`[]`, `"x"`, `1`, `{`, `{"a":1}}`, `{"a"}`} {
		if ran, err := withContext(t.Context(), "wallet", args, providers); err == nil || err.Code != toolyard.Invalid {
			t.Errorf("%s ran with %s (%v)", args, ran, err)
		}
	}
}

func TestContextThatCannotBeHad(t *testing.T) {
	unlinked := toolyard.Errorf(toolyard.NoData, "Please link your wallet in Settings.")
	good := says(`{}`, nil)
	for name, tt := range map[string]struct {
		provider toolyard.ContextProvider
		code     toolyard.Code
		message  string
	}{
		"nobody":     {nil, toolyard.Unavailable, "Context kind is required by t but is not configured."},
		"its error":  {says("", unlinked), toolyard.NoData, "kind: Please link your wallet in Settings."},
		"it names":   {says("", toolyard.Errorf(toolyard.NoData, "Link a kind.")), toolyard.NoData, "Link a kind."},
		"any error":  {says("", errors.New("token abc was refused")), toolyard.Unavailable, "Context kind is unavailable."},
		"no object":  {says(`[]`, nil), toolyard.Unavailable, "Context kind is unavailable."},
		"no JSON":    {says(`{"a":}`, nil), toolyard.Unavailable, "Context kind is unavailable."},
		"nothing":    {says(``, nil), toolyard.Unavailable, "Context kind is unavailable."},
		"large":      {says(`{"a":"`+strings.Repeat("x", 256<<10)+`"}`, nil), toolyard.Unavailable, "Context kind is 262152 bytes; the limit is 262144."},
		"it crashes": {providerFunc(func(context.Context, toolyard.Caller, time.Time) (json.RawMessage, error) { panic("ouch") }), toolyard.Unavailable, "Context kind is unavailable."},
	} {
		for _, needs := range []string{"kind", "kind other"} {
			ran, err := withContext(t.Context(), needs, `{}`, map[string]toolyard.ContextProvider{"kind": tt.provider, "other": good})
			if err == nil || ran != "" || err.Code != tt.code || err.Message != tt.message {
				t.Errorf("%s: %v, ran with %q", name, err, ran)
			}
			if name == "any error" && (err.Err == nil || !strings.Contains(err.Err.Error(), "token abc")) {
				t.Errorf("the cause is lost: %v", err.Err)
			}
		}
	}
	if unlinked.Message != "Please link your wallet in Settings." {
		t.Error("the provider's own error was changed")
	}
}

func TestContextIsFetchedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := providerFunc(func(ctx context.Context, caller toolyard.Caller, _ time.Time) (json.RawMessage, error) {
			if caller.ID != "ann" {
				t.Errorf("it is asked for %q", caller.ID)
			}
			select {
			case <-time.After(3 * time.Second):
				return json.RawMessage(`{}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		deaf := providerFunc(func(context.Context, toolyard.Caller, time.Time) (json.RawMessage, error) {
			time.Sleep(time.Hour)
			return json.RawMessage(`{}`), nil
		})
		leaving, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		for _, tt := range []struct {
			ctx   context.Context
			needs string
			took  time.Duration
			code  toolyard.Code
		}{
			{leaving, "a b", 3 * time.Second, ""},
			{leaving, "a b", time.Second, toolyard.Timeout},
			{t.Context(), "a broken", 0, toolyard.Unavailable},
			{t.Context(), "a deaf", 10 * time.Second, toolyard.Unavailable},
		} {
			start := time.Now()
			_, err := withContext(tt.ctx, tt.needs, `{}`, map[string]toolyard.ContextProvider{"a": slow, "b": slow, "deaf": deaf, "broken": says("", errors.New("x"))})
			if took := time.Since(start); took != tt.took || (err == nil) != (tt.code == "") || err != nil && err.Code != tt.code {
				t.Errorf("%s took %v: %v", tt.needs, took, err)
			}
			if tt.needs == "a deaf" && (err == nil || !strings.Contains(err.Message, "Context deaf could not be obtained")) {
				t.Error(err)
			}
		}
		time.Sleep(2 * time.Hour) // lets the provider that ignores cancellation end
	})
}

// Regardless of what the caller sends, the tool receives the platform's context and the other
// arguments unchanged.
func FuzzInject(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1,"portfolio":2}`, `{"Portfolio":{"x":[]},"b":"\u0000"}`, `[1]`, `{"a":1}{}`, ` null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		ran, err := withContext(t.Context(), "wallet", args, map[string]toolyard.ContextProvider{"wallet": says(`{"w":1}`, nil)})
		if err != nil {
			return
		}
		var sent, got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(ran), &got); err != nil || string(got["portfolio"]) != `{"w":1}` {
			t.Fatalf("%q ran with %q: %v", args, ran, err)
		}
		_ = json.Unmarshal([]byte(args), &sent) // empty if args is {}
		for name, value := range sent {
			if !strings.EqualFold(name, "portfolio") && string(got[name]) != string(value) {
				t.Fatalf("%q ran with %q", args, ran)
			}
		}
		if len(got) > len(sent)+1 {
			t.Fatalf("%q ran with %q", args, ran)
		}
	})
}

// If injected data violates the tool's input schema, the provider is at fault, because the caller
// cannot correct it. The caller gets only the issues with its own arguments.
func TestContextThatBreaksTheInputSchema(t *testing.T) {
	const input = `{"type":"object","properties":{
		"customer":{"type":"object","properties":{"tier":{"enum":["gold","silver"]}},"required":["tier"]},
		"order":{"type":"string"}},"required":["customer","order"],"minProperties":2}`
	const either = `{"type":"object","properties":{"customer":{},"order":{}},"anyOf":[{"properties":{"customer":{"required":["tier"]}},"required":["customer"]}]}`
	const several = `{"type":"object","properties":{"customer":{},"order":{}},"oneOf":[{"properties":{"customer":{"required":["tier"]}}},{"properties":{"customer":{"required":["rank"]}}}]}`
	for name, tt := range map[string]struct {
		input, record, args string
		handler             error // result of the tool itself
		code                toolyard.Code
		message             string
		issues              []string
		logged              string
	}{
		"good":                {input, `{"tier":"gold"}`, `{"order":"7"}`, nil, "", "", nil, ""},
		"wrong value":         {input, `{"tier":"bronze"}`, `{"order":"7"}`, nil, toolyard.Unavailable, "Context crm does not match the input schema of discount. The problem is in its provider, not in your arguments.", nil, "customer.tier: must be one of"},
		"missing member":      {input, `{}`, `{"order":"7"}`, nil, toolyard.Unavailable, "Context crm does not match", nil, "customer.tier: is required"},
		"composed schema":     {either, `{}`, `{"order":"7"}`, nil, toolyard.Unavailable, "Context crm does not match", nil, "customer"},
		"two alternatives":    {several, `{}`, `{"order":"7"}`, nil, toolyard.Unavailable, "Context crm does not match", nil, "customer.tier: is required"},
		"both are wrong":      {input, `{}`, `{"order":7}`, nil, toolyard.Invalid, "Invalid arguments for discount", []string{"order"}, ""},
		"the caller is wrong": {input, `{"tier":"gold"}`, `{"order":7}`, nil, toolyard.Invalid, "Invalid arguments for discount", []string{"order"}, ""},
		"the tool refuses the context": {
			input, `{"tier":"gold"}`, `{"order":"7"}`, &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid arguments for discount", Issues: []toolyard.Issue{{Path: "customer.tier", Message: "too rich", Location: []string{"customer", "tier"}}}},
			toolyard.Unavailable, "Context crm does not match", nil, "customer.tier: too rich",
		},
		"the tool refuses the arguments": {
			input, `{"tier":"gold"}`, `{"order":"7"}`, &toolyard.Error{Code: toolyard.Invalid, Message: "No such order", Issues: []toolyard.Issue{{Path: "order", Message: "unknown", Location: []string{"order"}}}},
			toolyard.Invalid, "No such order",
			[]string{"order"},
			"",
		},
		"the tool refuses without a reason": {input, `{"tier":"gold"}`, `{"order":"7"}`, toolyard.Errorf(toolyard.Invalid, "No."), toolyard.Invalid, "No.", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := toolyard.Spec{Name: "discount", Server: "s", Terms: toolyard.Terms{Contexts: []string{"crm"}, ContextArgs: map[string]string{"crm": "customer"}}, Input: json.RawMessage(tt.input)}
			tool, err := toolyard.NewTool(spec, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, tt.handler })
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			inject := callpath.Inject(slog.New(slog.NewTextHandler(&log, nil)), func(string) toolyard.ContextProvider { return says(tt.record, nil) })
			_, failed := callIn(t.Context(), tool, tt.args, inject, callpath.Validate(time.Minute))
			if failed == nil {
				failed = &toolyard.Error{}
			}
			var issues []string
			for _, i := range failed.Issues {
				issues = append(issues, i.Path)
			}
			if failed.Code != tt.code || !strings.HasPrefix(failed.Message, tt.message) || !slices.Equal(issues, tt.issues) {
				t.Errorf("%s: %s %v", failed.Code, failed.Message, failed.Issues)
			}
			if tt.logged == "" && log.Len() > 0 || !strings.Contains(log.String(), tt.logged) || tt.logged != "" && !strings.Contains(log.String(), "kind=crm tool=discount") {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}
