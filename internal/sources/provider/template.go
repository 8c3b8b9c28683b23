package provider

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
)

// Links returns the value that a caller has linked for a kind, or "" if there is none.
type Links func(ctx context.Context, caller toolyard.Caller, kind string) (string, error)

// The placeholders. {link.NAME} is the value that the caller has linked for NAME, and {link} is the
// value for the kind itself.
const (
	callerID      = "caller.id"
	callerAccount = "caller.account"
	link          = "link"
	asOfTime      = "asOf"
)

var placeholders = []string{callerID, callerAccount, link, link + ".NAME", asOfTime}

// template is a text with placeholders in braces, such as /customers/{caller.id}.
type template []part

// part is a literal or a placeholder.
type part struct {
	text        string
	placeholder bool
}

var linkName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// parseTemplate parses a template. {link} refers to kind. References to secrets, such as
// ${secret:crm}, stay in the literals.
func parseTemplate(text, kind string) (t template, err error) {
	literal := ""
	for text != "" {
		before, after, found := strings.Cut(text, "{")
		if strings.Contains(before, "}") {
			return nil, errors.New("unmatched }: write placeholders such as {caller.id}")
		}
		literal += before
		if !found {
			break
		}
		name, rest, closed := strings.Cut(after, "}")
		if !closed {
			return nil, errors.New("unmatched {: write placeholders such as {caller.id}")
		}
		text = rest
		if strings.HasSuffix(before, "$") {
			literal += "{" + name + "}"
			continue
		}
		if name, err = placeholder(name, kind); err != nil {
			return nil, err
		}
		if literal != "" {
			t, literal = append(t, part{text: literal}), ""
		}
		t = append(t, part{name, true})
	}
	if literal != "" {
		t = append(t, part{text: literal})
	}
	return t, nil
}

// placeholder checks a placeholder's name and expands {link}.
func placeholder(name, kind string) (string, error) {
	if name == link {
		name += "." + kind
	}
	if linked, ok := strings.CutPrefix(name, link+"."); ok {
		if !linkName.MatchString(linked) {
			return "", fmt.Errorf("{%s} is not a valid link name: use a-z, 0-9, - and _", name)
		}
		return name, nil
	}
	if !slices.Contains(placeholders, name) {
		return "", unknownPlaceholder(name)
	}
	return name, nil
}

func unknownPlaceholder(name string) error {
	if near := spelling.Nearest(name, placeholders); near != "" {
		return fmt.Errorf("unknown placeholder {%.80s}%s", name, spelling.Hint("{"+near+"}"))
	}
	return fmt.Errorf("unknown placeholder {%.80s}; valid placeholders are {%s}", name, strings.Join(placeholders, "}, {"))
}

// urlTemplate is a template for a URL. The server is fixed: placeholders are allowed only in the
// path and the query.
type urlTemplate struct{ template }

var fixedServer = regexp.MustCompile(`^https?://[^/?#]+[/?]`)

// parseURL parses a URL template and returns its server's address.
func parseURL(text, kind string) (t urlTemplate, server *url.URL, err error) {
	if t.template, err = parseTemplate(text, kind); err != nil {
		return t, nil, err
	}
	if !strings.ContainsAny(strings.TrimPrefix(strings.TrimPrefix(text, "http://"), "https://"), "/?") && len(t.template) == 1 {
		t.template[0].text += "/"
	}
	if len(t.template) == 0 || t.template[0].placeholder || !fixedServer.MatchString(t.template[0].text) {
		return t, nil, errors.New("must begin with http:// or https:// and a host without placeholders")
	}
	probe := make(values)
	for _, p := range t.template {
		if p.placeholder {
			probe[p.text] = "x"
		}
	}
	server, err = t.render(probe)
	if err != nil {
		return t, nil, errors.New("is not a valid URL") // omits the URL, which may contain a key
	}
	return t, server, nil
}

// values maps placeholders to their values.
type values map[string]string

var errDotSegment = errors.New("a path value is . or .., which is not allowed")

// render fills in the placeholders and escapes them for the path or the query.
func (t urlTemplate) render(v values) (*url.URL, error) {
	var b strings.Builder
	escape := url.PathEscape
	for _, p := range t.template {
		if p.placeholder {
			b.WriteString(escape(v[p.text]))
			continue
		}
		b.WriteString(p.text)
		if strings.Contains(p.text, "?") {
			escape = url.QueryEscape
		}
	}
	u, err := url.Parse(b.String())
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	for segment := range strings.SplitSeq(u.EscapedPath(), "/") {
		if segment == "." || segment == ".." {
			return nil, errDotSegment
		}
	}
	return u, nil
}

var errHeaderValue = errors.New("a value contains characters that are not allowed in a header")

// renderHeader fills in a header's placeholders. expand replaces references to secrets, but only in
// the operator's text.
func (t template) renderHeader(v values, expand func(string) (string, error)) (string, error) {
	var b strings.Builder
	for _, p := range t {
		text := p.text
		if p.placeholder {
			if text = v[p.text]; !isHeaderValue(text) {
				return "", errHeaderValue
			}
		} else {
			var err error
			if text, err = expand(text); err != nil {
				return "", err
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// isHeaderValue reports whether a text is printable ASCII. A line break would start another header.
func isHeaderValue(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// resolve returns the values of placeholders for a caller. It fails if the caller has no ID.
func resolve(ctx context.Context, names []string, kind string, caller toolyard.Caller, asOf time.Time, links Links) (values, error) {
	v := make(values, len(names))
	for _, name := range names {
		linked, isLink := strings.CutPrefix(name, link+".")
		switch {
		case name == asOfTime:
			v[name] = asOf.UTC().Format(time.RFC3339)
		case !caller.Authenticated():
			return nil, toolyard.Errorf(toolyard.Unauthenticated, "Context %s requires an authenticated caller. Send an API key.", kind)
		case name == callerID:
			v[name] = caller.ID
		case name == callerAccount:
			if v[name] = caller.Account; caller.Account == "" {
				v[name] = caller.ID
			}
		case isLink:
			value, err := linkedValue(ctx, kind, caller, linked, links)
			if err != nil {
				return nil, err
			}
			v[name] = value
		}
	}
	return v, nil
}

func linkedValue(ctx context.Context, kind string, caller toolyard.Caller, name string, links Links) (string, error) {
	if links == nil {
		return "", toolyard.Errorf(toolyard.Unavailable, "Context %s requires a store for links, but none is configured.", kind)
	}
	value, err := links(ctx, caller, name)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", &toolyard.Error{Code: toolyard.Unavailable, Message: fmt.Sprintf("The links for context %s cannot be read. Try again later.", kind), Err: err}
	case value == "":
		return "", toolyard.Errorf(toolyard.NoData, "Context %s requires a link that you have not set. Set it with `toolyard accounts link CALLER %s VALUE`, or PUT /api/v1/links/%s.", kind, name, name)
	}
	return value, nil
}
