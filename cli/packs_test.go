package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

// alarm is a pack with a tool, an action and two commands.
type alarm struct{ journal yard.Journal }

func (a *alarm) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	publish(toolyard.Offer{Tools: []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "when", Effects: toolyard.ReadOnly}, func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) {
			return c.AsOf.Format(time.RFC3339), nil
		}),
	}})
	<-ctx.Done()
	return nil
}

func (a *alarm) Actions() []*toolyard.Tool {
	type args struct {
		Zone  string `json:"zone" minLength:"1"`
		Level int    `json:"level" default:"1"`
	}
	return []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "silence", Description: "Silences a zone."}, func(ctx context.Context, c *toolyard.Call, in args) (string, error) {
			last, err := a.journal.Last(ctx, in.Zone)
			if err != nil {
				return "", err
			}
			last, err = a.journal.Append(ctx, in.Zone, last, yard.JournalEntry{Kind: "silence", Key: c.Caller.ID})
			return fmt.Sprintf("%s silenced %d times, level %d", in.Zone, last, in.Level), err
		}),
		toolyard.Define(toolyard.Spec{Name: "fail"}, func(context.Context, *toolyard.Call, struct{}) (*toolyard.Result, error) {
			return toolyard.Failure("broken"), nil
		}),
	}
}

func alarmPack() yard.Pack {
	var days int
	return yard.Pack{
		Open: func(_ context.Context, s yard.PackSetup) (toolyard.Source, error) { return &alarm{s.Journal}, nil },
		Commands: []yard.PackCommand{
			{
				Name: "replay", Short: "Replay days", Args: "GATE", Flags: func(f *flag.FlagSet) { f.IntVar(&days, "days", 1, "number of days") },
				Run: func(ctx context.Context, s yard.PackCommandSetup) error {
					if _, ok := s.Source.(*alarm); !ok {
						return fmt.Errorf("the source is %T", s.Source)
					}
					for day := range days {
						at := time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC)
						res, err := s.Yard.CallAsOf(ctx, at, s.Args[0], toolyard.Caller{ID: "replay"}, "when", nil)
						if err != nil {
							return err
						}
						fmt.Fprintln(s.Stdout, res.Content[0])
					}
					return nil
				},
			},
			{Name: "zones list", Short: "List zones", Run: func(_ context.Context, s yard.PackCommandSetup) error {
				_, err := fmt.Fprintln(s.Stdout, "hall", s.Args)
				return err
			}},
		},
	}
}

func TestPackCommands(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	text := "packs: {alarm: {}}\ngates:\n  past: {mode: read, clock: caller}\n  now: {mode: read}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string, string) {
		var out, err bytes.Buffer
		opts := yard.Options{Packs: map[string]yard.Pack{"alarm": alarmPack(), "tools": alarmPack()}}
		code := cli.Run(t.Context(), opts, append(args, "--config", file), strings.NewReader(""), &out, &err)
		return code, out.String(), err.String()
	}
	for _, test := range []struct {
		args string
		code int
		want string // expected in either output
	}{
		{"alarm", 0, "silence  Silences a zone."},
		{"alarm silence zone=hall", 0, "hall silenced 1 times, level 1\n"},
		{"alarm silence zone=hall level=3", 0, "hall silenced 2 times, level 3\n"},
		{"alarm silence zone=12", 0, "12 silenced 1 times, level 1\n"},
		{"alarm silence", 5, "zone"},
		{"alarm silenc zone=hall", 2, `pack alarm has no action "silenc" (did you mean "silence"?)`},
		{"alarm silence hall", 2, "is not KEY=VALUE"},
		{"alarm fail", 5, "broken"},
		{"alarm replay past --days 2", 0, "2026-01-01T00:00:00Z\n2026-01-02T00:00:00Z\n"},
		{"alarm replay now", 1, "does not let callers set the as-of time"},
		{"alarm zones list a b", 0, "hall [a b]\n"},
		{"alarm zones", 2, "requires a subcommand: list"},
		{"call when --gate past --as-of 2026-01-31T09:30:00Z", 0, "2026-01-31T09:30:00Z\n"},
		{"call when --gate now --as-of 2026-01-31T09:30:00Z", 5, "VALIDATION_ERROR"},
		{"call when --gate past --as-of yesterday", 5, "VALIDATION_ERROR"},
		{"tools --gate now", 0, "when"}, // a pack cannot replace a command
		{"schema", 0, `"alarm"`},
	} {
		code, out, err := run(strings.Fields(test.args)...)
		if code != test.code || !strings.Contains(out+err, test.want) {
			t.Errorf("%s: %d\n%s%s", test.args, code, out, err)
		}
	}
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "toolyard.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	changes, err := s.Changes(t.Context(), store.ChangeQuery{Action: "pack.action"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Subject, " ", c.Status, " ", string(c.Detail)))
	}
	if len(got) != 5 || got[len(got)-1] != `alarm/silence 200 {"args":{"zone":"hall"}}` || !strings.HasPrefix(got[0], "alarm/fail 400") {
		t.Errorf("%q", got)
	}
}

// Users cannot change a pack's tools, so lint gives no advice about them.
func TestLintOmitsPacks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("packs: {alarm: {}}\ngates: {now: {mode: read}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	opts := yard.Options{Packs: map[string]yard.Pack{"alarm": alarmPack()}, Tools: []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "mine", Description: "Mine tool", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil }),
	}}
	code := cli.Run(t.Context(), opts, []string{"check", "--lint", "--config", file}, strings.NewReader(""), &out, &errs)
	if code != 0 || strings.Count(errs.String(), "warning: ") != 1 || !strings.Contains(errs.String(), "too vague") {
		t.Errorf("exit %d: %s%s", code, &out, &errs)
	}
}
