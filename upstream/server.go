package upstream

import (
	"context"
	"fmt"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Server is a [toolyard.Source] backed by an MCP server.
type Server struct {
	opts        *Options
	supervisor  *supervisor
	definitions *definitions
	approvals   *approvals
}

// New creates a source for a server. Run starts the server.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	report := &reporter{opts: &o}
	defs := newDefinitions(report)
	review := &approvals{reporter: report, definitions: defs}
	super := newSupervisor(&o, report, defs, review)
	defs.handlers = newConversations(report, defs, super)
	return &Server{opts: &o, supervisor: super, definitions: defs, approvals: review}, nil
}

// Run implements [toolyard.Source]. It keeps a session with the server open until ctx ends.
// Approved definitions are offered immediately, before the server has responded.
func (v *Server) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	v.supervisor.run(ctx, func() {
		publish(toolyard.Offer{Tools: v.Tools(), Resources: v.Resources(), Prompts: v.Prompts(), Problems: v.Problems()})
	})
	return nil
}

// Retry triggers a new attempt to reach a server that is down.
func (v *Server) Retry() { v.supervisor.requestRetry() }

// Refresh lists the definitions again if the server is up, and otherwise retries the connection.
func (v *Server) Refresh() {
	if s := v.supervisor.current().session; s != nil {
		signal(s.changed)
		return
	}
	v.Retry()
}

// Up reports whether the server can be called now.
func (v *Server) Up() bool { return v.supervisor.up() }

// AwaitFirstAttempt waits until the first attempt to reach the server has ended and its outcome is
// published: the server is up, or Problems reports why not.
func (v *Server) AwaitFirstAttempt(ctx context.Context) {
	select {
	case <-v.supervisor.tried:
	case <-ctx.Done():
	}
}

// Recheck compares the definitions with the pins again.
func (v *Server) Recheck() {
	v.approvals.update()
	v.supervisor.requestListing()
}

// Tools returns the tools that are currently offered.
func (v *Server) Tools() []*toolyard.Tool { return v.definitions.tools() }

// Resources returns the resources that are currently offered.
func (v *Server) Resources() []*toolyard.Resource { return v.definitions.listResources() }

// Prompts returns the prompts that are currently offered.
func (v *Server) Prompts() []*toolyard.Prompt { return v.definitions.listPrompts() }

// Problems returns the server's current problems.
func (v *Server) Problems() []toolyard.Problem {
	return append(v.definitions.listProblems(), v.supervisor.problems()...)
}

// Pending returns the definitions that differ from the approved ones, sorted by name. The server
// must be up.
func (v *Server) Pending() ([]Pending, error) {
	if !v.Up() {
		return nil, v.supervisor.unavailable(v.supervisor.lastError())
	}
	return v.approvals.compare(), nil
}

// PendingCount returns how many definitions are waiting for a decision, including invalid ones, and
// how many have been rejected. Their sum is the number of entries that Pending returns. The counts
// are zero until the server has been listed for the first time.
func (v *Server) PendingCount() (waiting, rejected int) { return v.approvals.count() }

// Approve pins pending definitions as they were shown, and clears their rejections.
func (v *Server) Approve(pending []Pending) error {
	err := v.approvals.approve(pending)
	v.Recheck()
	return err
}

// Reject rejects pending definitions as they were shown. They stay withheld, and become pending
// again only if they change.
func (v *Server) Reject(pending []Pending) error {
	if err := v.approvals.reject(pending); err != nil {
		return err
	}
	v.Recheck()
	return nil
}

// Hashes returns the hashes of the approved definitions, by tool. It returns nil if pinning is off.
func (v *Server) Hashes() map[string]string { return v.approvals.hashes() }

// DefinitionNames returns the names of all of the server's tools and prompts, whether offered or
// withheld.
func (v *Server) DefinitionNames() []string { return v.definitions.names() }

// Status returns the server's state, its history and its standard error.
func (v *Server) Status() Status {
	s := v.Summary()
	s.Events, s.Stderr = v.supervisor.history.newest(), v.supervisor.stderr()
	return s
}

// Summary is like Status, but omits the history and standard error. It is meant for lists of many
// servers.
func (v *Server) Summary() Status { return v.supervisor.status() }

// Step is one decision about whether and how a tool is offered.
type Step struct {
	Rule  string // server, definition, pin, tools, effects, limits, mode, surface, toolset or name
	Text  string // the decision and its reason
	Stops bool   // whether the tool is not offered
	Fails bool   // whether the tool is offered but its calls fail
	Fix   string
}

// Explain returns the decisions about whether a tool is offered, up to the one that withholds it.
func (v *Server) Explain(tool string) (steps []Step) {
	add := func(stops bool, rule, format string, args ...any) {
		steps = append(steps, Step{Rule: rule, Text: fmt.Sprintf(format, args...), Stops: stops})
	}
	if v.Up() {
		add(false, "server", "%s is up (protocol %s)", v.opts.ID, v.supervisor.version.last())
	} else {
		steps = append(steps, Step{Rule: "server", Text: fmt.Sprintf("%s is down, so calls fail: %s", v.opts.ID, oneLine(v.supervisor.lastError())), Fails: true})
	}
	found := v.definitions.find(tool)
	if found == nil {
		add(true, "definition", "the server has no tool %s", untrusted.Quote(tool))
		return steps
	}
	d := *found
	defer func() { steps[len(steps)-1].Fix = d.fix }()
	if d.rejected {
		d.reason += "; an operator rejected it"
	}
	switch {
	case d.unselected:
		add(true, "tools", "%s", d.reason)
	case d.unapproved:
		add(false, "definition", "the definition is valid")
		add(true, "pin", "%s", d.reason)
	case d.reason != "":
		add(true, "definition", "%s", d.reason)
	default:
		add(false, "definition", "the definition is valid")
		add(false, "pin", "%s", v.explainPin())
		add(false, "tools", "%s", map[bool]string{true: "all of the server's tools are selected", false: "the configuration selects it"}[len(v.opts.Tools) == 0])
		add(false, "effects", "%s", v.explainEffects(&d))
		add(false, "limits", "a call can take at most %v", v.opts.timeoutOf(d.name))
	}
	return steps
}

func (v *Server) explainPin() string {
	if v.opts.Pinning == PinOff {
		return "this server's definitions are not pinned"
	}
	return "it matches the approved definition"
}

// explainEffects explains why a tool counts as a read or a write.
func (v *Server) explainEffects(d *definition) string {
	kind := "write"
	if v.opts.effects(d) == toolyard.ReadOnly {
		kind = "read"
	}
	_, byName := v.opts.Effects[d.name]
	_, byStar := v.opts.Effects["*"]
	switch {
	case byName || byStar:
		return kind + ", as configured"
	case v.opts.Trust && kind == "read":
		return "read, because the server is trusted and declares the tool read-only"
	}
	return "write, because the tool is not declared read-only"
}
