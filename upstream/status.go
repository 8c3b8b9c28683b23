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

// A server's states. A server that is down stays in that state while it is retried.
const (
	StateUp       = "up"
	StateStarting = "starting"
	StateDown     = "down"
)

// Status is a server's state, for operators. Text from the server is truncated, redacted and free
// of invisible characters.
type Status struct {
	State     string
	Since     time.Time // when the state began
	Protocol  string    // version of the last session; empty before the first
	Name      string    // as declared by the server
	Version   string    // as declared by the server
	Transport string    // stdio, http or sse
	Target    string    // the program and its arguments, or the URL
	Error     string    // why the server is down
	Restarts  int       // number of sessions after the first
	Events    []Event   // newest first
	Stderr    string    // last lines of the process's standard error
}

// Size limits on a status, in bytes.
const (
	maxName   = 128
	maxTarget = 256
	maxLine   = 500
	maxStderr = 8 << 10
)

// condition is a server's state as operators see it.
type condition struct {
	state string
	since time.Time
	err   error // the last failure
}

func (c *condition) update(next *state) {
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

// identity is what a server declared about itself in its last session.
type identity struct {
	protocol, name, version string
	transport               Transport
	sessions                int
}

func (sup *supervisor) recordIdentity(s *session) {
	shown := func(text string) string {
		return untrusted.Truncate(singleLine(sup.opts.Redact(text)), maxName)
	}
	sup.mu.Lock()
	sup.identity = identity{
		protocol: s.version, name: shown(s.serverName), version: shown(s.serverVersion),
		transport: sup.transportOf(s.link), sessions: sup.identity.sessions + 1,
	}
	sup.mu.Unlock()
	sup.event(EventUp, "uses protocol "+s.version)
}

// transportOf returns a link's transport, or the configured one if the link is nil.
func (sup *supervisor) transportOf(l link) Transport {
	_, old := l.(*sseLink)
	switch {
	case len(sup.opts.Command) > 0:
		return TransportStdio
	case old || sup.opts.Transport == TransportSSE:
		return TransportSSE
	}
	return TransportHTTP
}

// status returns the status without history and standard error.
func (sup *supervisor) status() Status {
	sup.mu.Lock()
	c, id := sup.condition, sup.identity
	sup.mu.Unlock()
	s := Status{
		State: c.state, Since: c.since, Protocol: id.protocol, Name: id.name, Version: id.version,
		Transport: string(cmp.Or(id.transport, sup.transportOf(nil))), Target: sup.target(), Restarts: max(0, id.sessions-1),
	}
	if s.State == StateDown {
		s.Error = oneLine(c.err)
	}
	return s
}

// target returns the command or the URL, with no credentials.
func (sup *supervisor) target() string {
	target := strings.Join(sup.opts.Command, " ")
	if sup.opts.URL != "" {
		u, err := url.Parse(sup.opts.URL)
		if err != nil {
			return "an invalid URL"
		}
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		target = u.String()
	}
	return untrusted.Truncate(singleLine(sup.opts.Redact(target)), maxTarget)
}

// stderr returns the last lines of the process's standard error. The text is redacted before it is
// truncated. It is redacted again after invisible characters are removed, because they may have
// split a secret.
func (sup *supervisor) stderr() string {
	process := sup.process.Load()
	if process == nil {
		return ""
	}
	text := lastLines(sup.opts.Redact(process.Tail()), 2*maxStderr)
	return lastLines(sup.opts.Redact(visible(text)), maxStderr)
}

// lastLines returns at most the last limit bytes of a text, in whole lines if there are several.
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

// escape matches terminal escape sequences, such as those for colors.
var escape = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// visible removes invisible characters, except for white space.
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

// singleLine returns a text as one line of visible characters.
func singleLine(text string) string { return strings.Join(strings.Fields(visible(text)), " ") }
