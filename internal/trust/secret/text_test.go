package secret_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/trust/secret"
)

func TestRevealIsTheOneWay(t *testing.T) {
	if got := secret.New("hunter22").Reveal(); got != "hunter22" {
		t.Errorf("got %q", got)
	}
	if got := (secret.Text{}).Reveal(); got != "" {
		t.Errorf("the zero value reveals %q", got)
	}
	if got := fmt.Sprint(secret.Text{}); got != secret.Redacted {
		t.Errorf("the zero value shows %q", got)
	}
}

// holder contains a secret in every way that a struct can.
type holder struct {
	Open    secret.Text
	Pointer *secret.Text
	Any     any
	List    []secret.Text
	Map     map[string]secret.Text
	hidden  secret.Text
	pointer *secret.Text
	any     any
	list    [1]secret.Text
}

func hold(s string) holder {
	t := secret.New(s)
	return holder{t, &t, t, []secret.Text{t}, map[string]secret.Text{"key": t}, t, &t, t, [1]secret.Text{t}}
}

// embedding has the methods of an embedded secret.
type embedding struct{ secret.Text }

// failure is an error that contains a secret.
type failure struct{ secret.Text }

func (f failure) Error() string { return fmt.Sprintf("failed with %v", f.Text) }

// canaries returns 20 secrets with characters that encoders treat specially.
func canaries() (list []string) {
	for i, odd := range []string{"", "\n", "\"", `\`, "é", "<&>", "%", "\x00", " ", "😀"} {
		list = append(list, fmt.Sprintf("canary-%02d%s-tail", i, odd), fmt.Sprintf("CANARY%02d%sTAIL", i, odd))
	}
	return list
}

// leaks reports whether an output contains any part of a canary in any common encoding.
func leaks(output string) bool {
	output = strings.ToLower(output)
	for _, part := range []string{"canary", "tail", fmt.Sprintf("%x", "canary"), fmt.Sprintf("%x", "CANARY"), fmt.Sprintf("%d", []byte("anary"))[1:10], "y2fuyxj5", "q0foqvjz"} {
		if strings.Contains(output, strings.ToLower(part)) {
			return true
		}
	}
	return false
}

func TestNothingPrintsASecret(t *testing.T) {
	if len(canaries()) != 20 {
		t.Fatal("there are not 20 canaries")
	}
	outputs := 0
	for _, canary := range canaries() {
		text := secret.New(canary)
		values := []any{
			text, &text, hold(canary), new(hold(canary)),
			embedding{text},
			failure{text},
			[]any{text},
			map[string]any{"a": text},
			fmt.Errorf("wrapped: %w", failure{text}), errors.Join(failure{text}, errors.New("other")), func() any { return text }, text.Reveal,
		}
		for i, v := range values {
			for where, output := range shown(v) {
				outputs++
				if leaks(output) {
					t.Errorf("value %d shows %q by %s", i, output, where)
				}
			}
		}
	}
	if outputs < 20*12*50 {
		t.Errorf("only %d outputs were looked at", outputs)
	}
}

// shown returns all representations of a value.
func shown(v any) map[string]string {
	out := make(map[string]string)
	for verb := rune('A'); verb <= 'z'; verb++ {
		for _, flags := range []string{"", "+", "#", "-20", " ", "020.3"} {
			format := "%" + flags + string(verb)
			out[format] = fmt.Sprintf(format, v)
			out["error "+format] = fmt.Errorf(format, v).Error()
		}
	}
	raw, err := json.Marshal(v)
	out["json"] = fmt.Sprintf("%s %v", raw, err)
	raw, err = xml.Marshal(v)
	out["xml"] = fmt.Sprintf("%s %v", raw, err)
	var b bytes.Buffer
	out["gob error"] = fmt.Sprint(gob.NewEncoder(&b).Encode(v))
	out["gob"] = b.String()
	for name, h := range map[string]slog.Handler{"slog text": slog.NewTextHandler(&b, nil), "slog json": slog.NewJSONHandler(&b, nil)} {
		b.Reset()
		slog.New(h).With("with", v).WithGroup("group").Info("message", "value", v, slog.Group("inner", "value", v))
		out[name] = b.String()
	}
	return out
}

func TestEncodersShowRedacted(t *testing.T) {
	text := secret.New("canary")
	quoted := `"` + secret.Redacted + `"`
	asJSON, _ := json.Marshal(map[string]any{"a": text, "b": []secret.Text{text}, "c": &text})
	asKey, _ := json.Marshal(struct{ T secret.Text }{text})
	asYAML, _ := text.MarshalYAML()
	asXML, _ := xml.Marshal(struct {
		XMLName xml.Name    `xml:"x"`
		T       secret.Text `xml:"t"`
	}{T: text})
	var asGob bytes.Buffer
	if err := gob.NewEncoder(&asGob).Encode(struct{ T secret.Text }{text}); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"json":        {string(asJSON), `{"a":` + quoted + `,"b":[` + quoted + `],"c":` + quoted + `}`},
		"json struct": {string(asKey), `{"T":` + quoted + `}`},
		"xml":         {string(asXML), `<x><t>[redacted]</t></x>`},
		"%v":          {fmt.Sprintf("%v", struct{ T secret.Text }{text}), `{[redacted]}`},
		"%+v":         {fmt.Sprintf("%+v", struct{ T secret.Text }{text}), `{T:[redacted]}`},
		"%x":          {fmt.Sprintf("%x", text), secret.Redacted},
		"%q":          {fmt.Sprintf("%q", text), secret.Redacted},
		"%#v":         {fmt.Sprintf("%#v", text), secret.Redacted},
		"%d":          {fmt.Sprintf("%d", text), secret.Redacted},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	if !strings.Contains(asGob.String(), secret.Redacted) || asYAML != any(secret.Redacted) {
		t.Errorf("gob: %q, yaml: %v", asGob.String(), asYAML)
	}
}

// For an unexported field, fmt calls no methods and prints an address.
func TestUnexportedFieldsShowAnAddress(t *testing.T) {
	v := struct{ hidden secret.Text }{secret.New("canary")}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		if got := fmt.Sprintf(format, v); leaks(got) {
			t.Errorf("%s shows %s", format, got)
		}
	}
	if got := fmt.Sprintf("%#v", v); !strings.Contains(got, "0x") {
		t.Errorf("methods were called after all: %s", got)
	}
}
