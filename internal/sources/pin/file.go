package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	version = 1
	maxFile = 64 << 20 // bytes
)

// encode returns the content of the file, sorted and with one member per line, so that diffs show
// each change. It escapes invisible characters for reviewers.
func encode(servers map[string]*Entry) []byte {
	e := encoder{indent: []byte{'\n'}}
	e.object(func(member func(string)) {
		member("version")
		fmt.Fprint(&e.out, version)
		member("servers")
		e.object(func(member func(string)) {
			for _, id := range slices.Sorted(maps.Keys(servers)) {
				member(id)
				e.entry(servers[id])
			}
		})
	})
	e.out.WriteByte('\n')
	return showHidden(e.out.Bytes())
}

// encoder writes indented JSON.
type encoder struct {
	out    bytes.Buffer
	indent []byte // newline followed by the indentation of the next line
}

// object writes an object. To write a member, members calls member and then writes the value.
func (e *encoder) object(members func(member func(key string))) {
	e.out.WriteByte('{')
	e.indent = append(e.indent, ' ', ' ')
	first := true
	members(func(key string) {
		if !first {
			e.out.WriteByte(',')
		}
		first = false
		e.out.Write(e.indent)
		e.text(key)
		e.out.WriteString(": ")
	})
	e.indent = e.indent[:len(e.indent)-2]
	if !first {
		e.out.Write(e.indent)
	}
	e.out.WriteByte('}')
}

func (e *encoder) text(s string) {
	e.out.WriteByte('"')
	e.out.Write(appendEscaped(e.out.AvailableBuffer(), s))
	e.out.WriteByte('"')
}

// entry writes an entry. Entries are immutable, so the encoded form is cached.
func (e *encoder) entry(entry *Entry) {
	if entry.encoded == nil {
		start := e.out.Len()
		e.object(func(member func(string)) {
			member("protocol")
			e.text(entry.Protocol)
			if entry.Tools != nil {
				member("tools")
				e.tools(entry.Tools)
			}
			if len(entry.Rejected) > 0 {
				member("rejected")
				e.rejected(entry.Rejected)
			}
		})
		entry.encoded = bytes.Clone(e.out.Bytes()[start:])
		return
	}
	e.out.Write(entry.encoded)
}

func (e *encoder) tools(tools map[string]json.RawMessage) {
	e.object(func(member func(string)) {
		for _, name := range slices.Sorted(maps.Keys(tools)) {
			member(name)
			e.tool(tools[name])
		}
	})
}

func (e *encoder) rejected(hashes map[string]string) {
	e.object(func(member func(string)) {
		for _, name := range slices.Sorted(maps.Keys(hashes)) {
			member(name)
			e.text(hashes[name])
		}
	})
}

func (e *encoder) tool(definition json.RawMessage) {
	e.object(func(member func(string)) {
		member("digest")
		canonical, _ := Canonical(definition) // cannot fail: settled and decode have checked it
		e.text(Digest(canonical))
		member("definition")
		e.definition(definition)
	})
}

// maxGrowth limits how much indentation may enlarge a definition. Ordinary definitions double in
// size, but a malicious one could grow a hundredfold.
const maxGrowth = 8

// definition writes a definition with one member per line, or on a single line if indentation would
// exceed maxGrowth.
func (e *encoder) definition(canonical json.RawMessage) {
	start := e.out.Len()
	_ = json.Indent(&e.out, canonical, string(e.indent[1:]), "  ") // cannot fail: it is valid JSON
	if e.out.Len()-start > 1024+maxGrowth*len(canonical) {
		e.out.Truncate(start)
		e.out.Write(canonical)
	}
}

// showHidden escapes characters in a JSON text that are invisible or affect how other characters
// are displayed.
func showHidden(text []byte) []byte {
	if !bytes.ContainsFunc(text, isHidden) {
		return text
	}
	out := make([]byte, 0, len(text)+1024)
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if isHidden(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		} else {
			out = append(out, text[:n]...)
		}
		text = text[n:]
	}
	return out
}

func isHidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// damage is a decoding error and its position.
type damage struct {
	offset int64
	err    error
}

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// decode parses the file's content.
func decode(data []byte) (map[string]*Entry, error) {
	if i := firstInvalid(data); i >= 0 {
		return nil, &damage{int64(i), errors.New("the file is not valid UTF-8")}
	}
	d := decoder{json.NewDecoder(bytes.NewReader(data))}
	servers := make(map[string]*Entry)
	known := false
	err := d.object(func(key string) error {
		switch key {
		case "version":
			known = true
			return d.version()
		case "servers":
			return d.object(func(id string) (err error) {
				servers[id], err = d.entry()
				return err
			})
		}
		return d.unknown(key)
	})
	if err == nil && !known {
		err = errors.New("version is missing")
	}
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("unexpected data after the end of the document")
	}
	if err != nil {
		return nil, d.locate(err, data)
	}
	return servers, nil
}

func firstInvalid(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// decoder reads the outer levels of the file token by token. Definitions may already have the
// maximum depth of untrusted JSON, so the file itself may exceed it.
type decoder struct{ *json.Decoder }

// locate adds a position to an error that has none.
func (d decoder) locate(err error, data []byte) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(json.RawMessage))); ok {
		return &damage{syntax.Offset - 1, syntax}
	}
	if placed, ok := errors.AsType[*damage](err); ok {
		return placed
	}
	return &damage{d.InputOffset(), err}
}

func (d decoder) unknown(key string) error {
	return fmt.Errorf("unknown key %q; a newer version may have written this file", key)
}

// object reads an object and calls read for each key to read its value.
func (d decoder) object(read func(key string) error) error {
	at := d.InputOffset()
	if t, err := d.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return &damage{at, errors.New("expected an object")}
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string) // the decoder accepts only string keys
		if seen[key] {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		if err := read(key); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// value decodes a value into to.
func (d decoder) value(to any) error {
	at := d.InputOffset()
	err := d.Decode(to)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &damage{at, errors.New("the value has the wrong type")}
	}
	return err
}

func (d decoder) entry() (*Entry, error) {
	e := &Entry{}
	return e, d.object(func(key string) error {
		switch key {
		case "protocol":
			return d.value(&e.Protocol)
		case "tools":
			e.Tools = make(map[string]json.RawMessage)
			return d.object(func(name string) (err error) {
				e.Tools[name], err = d.tool(name)
				return err
			})
		case "rejected":
			return d.object(func(name string) (err error) {
				if e.Rejected == nil {
					e.Rejected = make(map[string]string)
				}
				e.Rejected[name], err = d.hash(name)
				return err
			})
		}
		return d.unknown(key)
	})
}

// hash reads a rejected definition's hash.
func (d decoder) hash(name string) (hash string, err error) {
	at := d.InputOffset()
	if err := d.value(&hash); err != nil {
		return "", err
	}
	if !isHash(hash) {
		return "", &damage{at, fmt.Errorf("the rejected hash for %s is invalid", name)}
	}
	return hash, nil
}

// tool reads a tool's definition and checks its digest.
func (d decoder) tool(name string) (definition json.RawMessage, err error) {
	at := d.InputOffset()
	var digest string
	var raw json.RawMessage
	err = d.object(func(key string) error {
		switch key {
		case "digest":
			return d.value(&digest)
		case "definition":
			return d.value(&raw)
		}
		return d.unknown(key)
	})
	if err != nil {
		return nil, err
	}
	canonical, err := Canonical(raw)
	if err != nil {
		return nil, &damage{at, fmt.Errorf("definition of %s: %w", name, err)}
	}
	if Digest(canonical) != digest { // edited by hand: no definition matches this digest, so the tool is withheld
		return json.RawMessage(`{"name":` + string(appendString(nil, mustQuote(name))) + `,"edited":"by hand; the digest does not match"}`), nil
	}
	return compact(raw), nil
}

func mustQuote(s string) []byte {
	quoted, _ := json.Marshal(s) // strings can always be encoded
	return quoted
}

// version reads the format version and rejects unsupported versions.
func (d decoder) version() error {
	at := d.InputOffset()
	var v int
	if err := d.value(&v); err != nil {
		return err
	}
	if v != version {
		return &damage{at, fmt.Errorf("unsupported version %d; only version %d is supported", v, version)}
	}
	return nil
}

// line returns the line number at an offset.
func line(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:max(offset, 0)], []byte{'\n'})
}
