package upstream

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// The states of a server. One that is down is so until it is up again, also while it is
// tried.
const (
	StateUp       = "up"
	StateStarting = "starting"
	StateDown     = "down"
)

// Status is how a server is, for the people who look after it. Whatever the server said of
// itself is bounded, without secrets and without characters that are not seen.
type Status struct {
	State     string
	Since     time.Time // when it came to be so
	Protocol  string    // the version that it spoke last, empty before the first session
	Name      string    // what it calls itself
	Version   string    // of itself
	Transport string    // stdio, http or sse
	Target    string    // the program with its arguments, or the URL
	Error     string    // why it is down
	Restarts  int       // sessions after the first
	Events    []Event   // the newest first
	Stderr    string    // the end of what the process wrote there
}

// Bounds on what a status holds, in bytes.
const (
	maxName   = 128
	maxTarget = 256
	maxLine   = 500
	maxStderr = 8 << 10
)

// condition is the state of a server as people are told it.
type condition struct {
	state string
	since time.Time
	err   error // why it is down, or was last
}

// follow takes over a new state.
func (c *condition) follow(next *state) {
	name := StateStarting
	switch {
	case next.session != nil:
		name = StateUp
	case next.err != nil:
		name, c.err = StateDown, next.err
	case c.state == StateDown:
		return
	}
	if c.state != name {
		c.state, c.since = name, time.Now()
	}
}

// identity is what became known of a server in its sessions.
type identity struct {
	protocol, name, version string
	transport               Transport
	sessions                int
}

// meet notes whom a new session is with.
func (v *Server) meet(s *session) {
	own := func(text string) string { return untrusted.Truncate(inOneLine(v.opts.Redact(text)), maxName) }
	v.mu.Lock()
	v.identity = identity{
		protocol: s.version, name: own(s.name), version: own(s.release),
		transport: v.transport(s.link), sessions: v.identity.sessions + 1,
	}
	v.mu.Unlock()
	v.event(EventUp, "it speaks "+s.version)
}

// transport is how a link speaks to the server, or how one would that is nil.
func (v *Server) transport(l link) Transport {
	_, old := l.(*sseLink)
	switch {
	case len(v.opts.Command) > 0:
		return TransportStdio
	case old || v.opts.Transport == TransportSSE:
		return TransportSSE
	}
	return TransportHTTP
}

// Status tells how the server is and what became of it.
func (v *Server) Status() Status {
	s := v.Brief()
	s.Events, s.Stderr = v.history.newest(), v.stderr()
	return s
}

// Brief is the status without events and complaints, for lists of many servers.
func (v *Server) Brief() Status {
	v.mu.Lock()
	c, id := v.condition, v.identity
	v.mu.Unlock()
	s := Status{
		State: c.state, Since: c.since, Protocol: id.protocol, Name: id.name, Version: id.version,
		Transport: string(cmp.Or(id.transport, v.transport(nil))), Target: v.target(), Restarts: max(0, id.sessions-1),
	}
	if s.State == StateDown {
		s.Error = oneLine(c.err)
	}
	return s
}

// target is where the server is, without what only we and the server may know.
func (v *Server) target() string {
	target := strings.Join(v.opts.Command, " ")
	if v.opts.URL != "" {
		u, err := url.Parse(v.opts.URL)
		if err != nil {
			return "a url that cannot be read"
		}
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		target = u.String()
	}
	return untrusted.Truncate(inOneLine(v.opts.Redact(target)), maxTarget)
}

// stderr is the end of what the process wrote. Secrets are taken out before anything is cut,
// and once more of what is left when the text is clean.
func (v *Server) stderr() string {
	process := v.process.Load()
	if process == nil {
		return ""
	}
	text := lastLines(v.opts.Redact(process.Tail()), 2*maxStderr)
	return lastLines(v.opts.Redact(visible(text)), maxStderr)
}

// lastLines is the end of a text, at most so many bytes, in whole lines if there are several.
func lastLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = untrusted.Suffix(text, limit)
	if _, whole, several := strings.Cut(text, "\n"); several {
		return whole
	}
	return text
}

// escape is a command to a terminal, such as one for a colour.
var escape = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// lineEnds are the ways to end a line.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// visible is a stranger's text without anything that is not seen, but for the white space
// that it needs.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, lineEnds.Replace(escape.ReplaceAllString(text, "")))
}

// inOneLine is a stranger's text as one line that can be shown.
func inOneLine(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }
