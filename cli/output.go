package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	if c, ok := stream.(*checkedWriter); ok {
		stream = c.w
	}
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// printableLines splits a text into lines that are safe to print on a terminal.
func printableLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(untrusted.Printable(strings.TrimRight(line, "\r\n"))))
	}
	return lines
}

// writeJSON writes a value as JSON. On a terminal, control characters are escaped, which does not
// change the value.
func writeJSON(out io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	text := b.String()
	if isTerminal(out) {
		text = escapeJSON(text)
	}
	_, err := io.WriteString(out, text)
	return err
}

// escapeJSON writes all unprintable characters in a JSON text as \u escapes.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// shorten returns the first line of s, truncated to n characters.
func shorten(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	return untrusted.TruncateRunes(s, n)
}

// pad appends spaces up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// formatDuration formats a duration with a suitable unit.
func formatDuration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
