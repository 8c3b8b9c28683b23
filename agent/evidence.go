package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Outcome is how a query ended.
type Outcome string

// Possible outcomes. Only an answer is charged.
const (
	Answered       Outcome = "answer"
	CapabilityMiss Outcome = "capability_miss" // no call succeeded, or there was no answer
	Failed         Outcome = "failed"
	Running        Outcome = "running" // stored while a query runs
)

// Answer is an agent's response to a query.
type Answer struct {
	Outcome     Outcome         `json:"outcome"`
	Answer      string          `json:"answer"`
	Data        json.RawMessage `json:"data,omitempty"` // returned by a hook
	Query       string          `json:"query"`          // ID of the query, which is the ID of its call
	Agent       string          `json:"agent"`
	AsOf        time.Time       `json:"asOf"`
	Evidence    []Evidence      `json:"evidence"`
	Tools       []ToolUse       `json:"tools"`
	Unsupported []string        `json:"unsupported"` // citations in the answer that match no evidence
	Missing     []string        `json:"missing"`     // unknown tools that the model requested
	Usage       Usage           `json:"usage"`
	Cost        Cost            `json:"cost"`
}

// ToolUse is how often a query called a tool.
type ToolUse struct {
	Server string `json:"server"`
	Tool   string `json:"tool"`
	Calls  int    `json:"calls"`
}

// Cost is the price of a response for the caller.
type Cost struct {
	Price toolyard.Money `json:"priceUsd"`
}

// Evidence is the platform's record of a call that a query made.
type Evidence struct {
	ID        string          `json:"id"` // e1, e2 and so on
	Call      string          `json:"call,omitempty"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	At        time.Time       `json:"at"`
	OK        bool            `json:"ok"`
	Error     toolyard.Code   `json:"error,omitempty"`
	Excerpt   string          `json:"excerpt"`
	Bytes     int             `json:"bytes"`
	SHA256    string          `json:"sha256"`
	URI       string          `json:"uri,omitempty"` // URI of the full text, if it is stored
	Cited     bool            `json:"cited"`
}

// Usage describes the resources that a query used.
type Usage struct {
	Turns        int   `json:"turns"`
	Calls        int   `json:"calls"`
	Failed       int   `json:"failed"`
	InputTokens  int64 `json:"inputTokens"`
	CachedTokens int64 `json:"cachedTokens"`
	OutputTokens int64 `json:"outputTokens"`
	Estimated    bool  `json:"estimated"`
	DurationMS   int64 `json:"durationMs"`
	Tools        int   `json:"tools"` // number of tools offered to the model
	Stop         Stop  `json:"stop"`
}

// Run is the stored form of a query, for operators.
type Run struct {
	*Answer
	Account, Caller, Gate string
	Text                  string
	Shape                 Shape
	Start, End            time.Time
	Until                 time.Time // deadline
	Turns                 []Turn
	Spans                 []Span
	Model, Tools          toolyard.Money    // cost of the model, and of the calls at a gate with the surface execute
	Code                  toolyard.Code     // error code; may be empty
	Bodies                map[string]string // full text of the evidence, by ID
}

// Turn is one turn of a model.
type Turn struct {
	Agent   string         `json:"agent"`
	Model   string         `json:"model"`
	Start   time.Duration  `json:"startNs"` // time since the start of the query
	Elapsed time.Duration  `json:"elapsedNs"`
	Usage   model.Usage    `json:"usage"`
	Cost    toolyard.Money `json:"costUsd"`
	Calls   int            `json:"calls"`
	Text    string         `json:"text,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// Span is the duration of a call.
type Span struct {
	Evidence string        `json:"evidence"`
	Start    time.Duration `json:"startNs"`
	Elapsed  time.Duration `json:"elapsedNs"`
}

// Limits on what is stored for a query, in bytes.
const (
	maxExcerpt = 2 << 10
	maxBody    = 256 << 10
	maxBodies  = 4 << 20 // per query
)

// EvidenceURI returns the URI of an evidence item's full text.
func EvidenceURI(query, evidence string) string {
	return "toolyard://evidence/" + query + "/" + evidence
}

// finish builds the answer from the calls and the model's text.
func (r *run) finish(f final) *Answer {
	a := &Answer{
		Outcome: CapabilityMiss, Data: f.data, Query: r.call.ID, Agent: r.root.opts.Name, AsOf: r.call.AsOf, Missing: append([]string{}, r.missing...), Unsupported: []string{},
		Evidence: []Evidence{}, Tools: []ToolUse{},
		Usage: Usage{
			Turns: len(r.turns), InputTokens: r.usage.Input, CachedTokens: r.usage.Cached, OutputTokens: r.usage.Output, Estimated: r.usage.Estimated,
			DurationMS: r.root.opts.Now().Sub(r.start).Milliseconds(), Tools: r.offered, Stop: cmp.Or(r.stop, StopEnd),
		},
	}
	for _, call := range r.calls {
		a.Evidence = append(a.Evidence, call.asEvidence(r.call.ID))
		if a.Usage.Calls++; call.err != nil {
			a.Usage.Failed++
		}
		i := slices.IndexFunc(a.Tools, func(t ToolUse) bool {
			return t.Server == call.target.Tool.Server && t.Tool == call.target.Tool.Tool.Name
		})
		if i < 0 {
			i, a.Tools = len(a.Tools), append(a.Tools, ToolUse{Server: call.target.Tool.Server, Tool: call.target.Tool.Tool.Name})
		}
		a.Tools[i].Calls++
	}
	a.Answer = r.defuse(r.root.opts.Redact(f.text))
	if r.query.Shape == EvidenceOnly && f.data == nil {
		a.Answer = ""
	}
	a.cite()
	grounded := a.Usage.Calls > a.Usage.Failed
	if f.data != nil || grounded && (a.Answer != "" || r.query.Shape == EvidenceOnly) {
		a.Outcome = Answered
	}
	if p := r.root.opts.Price; a.Outcome == Answered && r.call.Surface == toolyard.Execute && p.Set && !p.OptOut {
		a.Cost.Price = p.USD
	}
	return a
}

func (r *callResult) asEvidence(query string) Evidence {
	body := r.body
	if r.err != nil && body == "" {
		body = r.err.Message
	}
	sum := sha256.Sum256([]byte(body))
	e := Evidence{
		ID: r.evidence(), Call: r.id, Server: r.target.Tool.Server, Tool: r.target.Tool.Tool.Name, Arguments: r.target.Args, At: r.start.UTC(), OK: r.err == nil,
		Excerpt: untrusted.Truncate(body, maxExcerpt), Bytes: len(body), SHA256: hex.EncodeToString(sum[:]), URI: EvidenceURI(query, r.evidence()),
	}
	if len(e.Arguments) == 0 {
		e.Arguments = json.RawMessage("{}")
	}
	if r.err != nil {
		e.Error = r.err.Code
	}
	return e
}

var mark = regexp.MustCompile(`\[(e[0-9]{1,9}(?:\s*,\s*e[0-9]{1,9})*)\]`)

// cite marks the evidence that the answer cites, and lists citations that match no evidence.
func (a *Answer) cite() {
	for _, m := range mark.FindAllStringSubmatch(a.Answer, -1) {
		for id := range strings.SplitSeq(m[1], ",") {
			id = strings.TrimSpace(id)
			i := slices.IndexFunc(a.Evidence, func(e Evidence) bool { return e.ID == id })
			switch {
			case i >= 0:
				a.Evidence[i].Cited = true
			case !slices.Contains(a.Unsupported, id):
				a.Unsupported = append(a.Unsupported, id)
			}
		}
	}
}

var link = regexp.MustCompile(`!?\[([^\]\n]*)\]\(\s*<?([A-Za-z][A-Za-z0-9+.-]*:[^)\s>]*)[^)\n]*\)`)

// defuse turns links and images into text unless their host appears in the evidence. An attacker
// may have chosen the host, and following or rendering a link sends data to it.
func (r *run) defuse(text string) string {
	return link.ReplaceAllStringFunc(text, func(whole string) string {
		m := link.FindStringSubmatch(whole)
		u, err := url.Parse(m[2])
		known := err == nil && u.Host != "" && slices.ContainsFunc(r.calls, func(c *callResult) bool { return c.err == nil && strings.Contains(c.body, u.Host) })
		if known {
			return whole
		}
		return fmt.Sprintf("%s (`%s`)", m[1], strings.ReplaceAll(m[2], "`", ""))
	})
}

// result returns the answer as the result of the agent's tool. A miss is a failure, so that it is
// not charged.
func (a *Answer) result(shape Shape) (*toolyard.Result, error) {
	raw, err := a.marshal(shape)
	if err != nil {
		return nil, err
	}
	res := &toolyard.Result{Structured: raw, IsError: a.Outcome != Answered}
	text := a.Answer
	switch {
	case a.Outcome != Answered:
		text = cmp.Or(a.Answer, "The question cannot be answered with this agent's tools.")
	case shape == EvidenceOnly:
		text = string(raw)
	case text == "" && a.Data != nil:
		text = string(a.Data)
	}
	res.Content = []toolyard.Content{toolyard.Text(text)}
	return res, nil
}

// marshal encodes the answer in the given shape. [AnswerOnly] omits the evidence.
func (a *Answer) marshal(shape Shape) (json.RawMessage, error) {
	raw, err := jsonobject.Marshal(a)
	if err != nil || shape != AnswerOnly {
		return raw, err
	}
	list, _ := jsonobject.Members(raw)
	return jsonobject.Join(slices.DeleteFunc(list, func(m jsonobject.Member) bool { return m.Key == "evidence" })), nil
}

// record returns the stored form of the query.
func (r *run) record(a *Answer, err error) *Run {
	run := &Run{
		Answer: a, Account: cmp.Or(r.call.Caller.Account, r.call.Caller.ID), Caller: r.call.Caller.ID, Gate: r.call.Gate, Text: r.root.opts.Redact(r.query.Text), Shape: r.query.Shape,
		Start: r.start, End: r.root.opts.Now(), Until: r.start.Add(r.root.opts.Limits.Time), Turns: slices.Clone(r.turns), Model: r.cost, Bodies: make(map[string]string),
	}
	if err != nil {
		run.Code = toolyard.AsError(err).Code
	}
	for i := range run.Turns {
		run.Turns[i].Text = untrusted.Truncate(r.root.opts.Redact(run.Turns[i].Text), maxExcerpt)
	}
	size := 0
	for _, call := range r.calls {
		run.Spans = append(run.Spans, Span{call.evidence(), call.start.Sub(r.start), call.elapsed})
		if p := call.target.Tool.Price; call.err == nil && p.Set && !p.OptOut {
			run.Tools += p.USD
		}
		body := untrusted.Truncate(call.body, maxBody)
		if size += len(body); call.body != "" && size <= maxBodies {
			run.Bodies[call.evidence()] = body
		}
	}
	return run
}
