package rules

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Preview limits.
const (
	maxPreview      = 16 << 10 // bytes
	maxPreviewDepth = 12
	maxPreviewItems = 100  // members or items per value
	maxPreviewText  = 2000 // bytes per string
	maxPreviewKey   = 100  // bytes per name
)

// Preview shows a call's arguments to an approver.
type Preview struct {
	Args   json.RawMessage // an object; hidden values are replaced by descriptions in parentheses
	Hidden int             // number of values hidden because they may be secrets
	Cut    int             // number of values shortened or omitted because of their size
}

// Show returns a preview of arguments. It hides values whose name or format suggests a secret, and
// applies redact, which may be nil, to every other string. An approval is bound to the arguments
// themselves, not to the preview.
func Show(args json.RawMessage, redact func(string) string) Preview {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	p := previewer{redact: redact}
	b := p.value(nil, args, 0)
	return Preview{Args: b, Hidden: p.hidden, Cut: p.cut}
}

type previewer struct {
	redact      func(string) string
	hidden, cut int
}

// secretNames match the names of arguments that hold secrets.
var secretNames = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|cookie|authorization|api[_-]?key|private[_-]?key|access[_-]?key|^(auth|pin|otp|cvv|cvc)$`)

// secretTexts match well-known secret formats.
var secretTexts = regexp.MustCompile(`(?i)-----BEGIN [A-Z ]*PRIVATE KEY|\bbearer\s+\S{8,}|\b(ty_|sk-|sk_|rk_|pk_live|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|ya29\.|npm_|SG\.)[A-Za-z0-9_-]{8,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}|://[^/\s:@]+:[^/\s@]+@`)

func (p *previewer) value(b []byte, raw json.RawMessage, depth int) []byte {
	switch kind := jsonobject.Kind(raw); {
	case len(b) > maxPreview || depth > maxPreviewDepth:
		p.cut++
		return jsonobject.AppendString(b, fmt.Sprintf("(%d bytes, not shown)", len(raw)))
	case kind == '{':
		return p.object(b, raw, depth)
	case kind == '[':
		return p.array(b, raw, depth)
	case kind == '"':
		text, _ := jsonobject.String(raw)
		return jsonobject.AppendString(b, p.text(text))
	case len(raw) > maxPreviewKey: // a number with a great many digits
		p.cut++
		return jsonobject.AppendString(b, untrusted.Truncate(string(raw), maxPreviewKey))
	}
	if number := string(raw); p.redact(number) != number {
		return p.hide(b, raw)
	}
	return append(b, raw...)
}

func (p *previewer) object(b []byte, raw json.RawMessage, depth int) []byte {
	list, _ := jsonobject.Members(raw)
	b = append(b, '{')
	for i, m := range list {
		if i == maxPreviewItems {
			p.cut += len(list) - i
			b = append(jsonobject.AppendString(append(b, `"…":`...), fmt.Sprintf("(%d more)", len(list)-i)), ',')
			break
		}
		name := p.redact(m.Key)
		b = append(jsonobject.AppendString(b, visible(untrusted.Truncate(name, maxPreviewKey))), ':')
		if secretNames.MatchString(m.Key) && string(m.Value) != "null" {
			b = p.hide(b, m.Value)
		} else {
			b = p.value(b, m.Value, depth+1)
		}
		b = append(b, ',')
	}
	return end(b, '}')
}

func (p *previewer) array(b []byte, raw json.RawMessage, depth int) []byte {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // raw is valid JSON
	b = append(b, '[')
	for i, item := range items {
		if i == maxPreviewItems {
			p.cut += len(items) - i
			b = append(jsonobject.AppendString(b, fmt.Sprintf("(%d more)", len(items)-i)), ',')
			break
		}
		b = append(p.value(b, item, depth+1), ',')
	}
	return end(b, ']')
}

// end replaces the comma after the last element with a bracket.
func end(b []byte, bracket byte) []byte {
	if last := len(b) - 1; b[last] == ',' {
		b[last] = bracket
		return b
	}
	return append(b, bracket)
}

// hide appends a description in place of the value.
func (p *previewer) hide(b []byte, raw json.RawMessage) []byte {
	p.hidden++
	if text, ok := jsonobject.String(raw); ok {
		return jsonobject.AppendString(b, fmt.Sprintf("(hidden, %d characters)", utf8.RuneCountInString(text)))
	}
	return jsonobject.AppendString(b, "(hidden)")
}

// text prepares a string for the preview.
func (p *previewer) text(text string) string {
	redacted := p.redact(text)
	if redacted != text || secretTexts.MatchString(text) || opaque(text) {
		p.hidden++
		return fmt.Sprintf("(hidden, %d characters)", utf8.RuneCountInString(text))
	}
	if len(text) > maxPreviewText {
		p.cut++
		return visible(untrusted.Prefix(text, maxPreviewText)) + fmt.Sprintf("… (%d characters total)", utf8.RuneCountInString(text))
	}
	return visible(text)
}

// opaque reports whether text looks like random data: long, no spaces, only letters and digits.
func opaque(text string) bool {
	const short = 32
	if len(text) < short || strings.Contains(text, "://") {
		return false
	}
	var upper, lower, digits bool
	for _, r := range text {
		switch {
		case 'A' <= r && r <= 'Z':
			upper = true
		case 'a' <= r && r <= 'z':
			lower = true
		case '0' <= r && r <= '9':
			digits = true
		case !strings.ContainsRune("+/=_-.", r):
			return false
		}
	}
	return digits && (upper || lower) && !uuid.MatchString(text)
}

// uuid matches UUIDs, which are not secrets.
var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// visible escapes invisible characters, so that the approver sees them.
func visible(text string) string {
	if untrusted.CheckText(text) == nil {
		return text
	}
	quoted := strconv.QuoteToASCII(text)
	return quoted[1 : len(quoted)-1]
}
