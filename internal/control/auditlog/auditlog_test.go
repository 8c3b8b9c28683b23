package auditlog_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/control/auditlog"
	"github.com/toolyard/toolyard/internal/store"
)

func TestWrite(t *testing.T) {
	s, err := store.Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	start := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	const total = 250
	for i := range total {
		c := &store.Change{ID: fmt.Sprintf("c%03d", i), At: start.Add(time.Duration(i/3) * time.Second), Caller: "=HYPERLINK(\"http://x\")", Action: "key.create", Subject: "a,b\n\"c\"", Detail: []byte(`{"i":1}`), Status: 200}
		if err := s.BeginChange(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	n, err := auditlog.Write(t.Context(), &b, s, auditlog.Options{Format: auditlog.JSONL})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if err != nil || n != total || len(lines) != total {
		t.Fatal(n, len(lines), err)
	}
	for i, line := range lines {
		var c store.Change
		if err := json.Unmarshal([]byte(line), &c); err != nil || c.ID != fmt.Sprintf("c%03d", i) || string(c.Detail) != `{"i":1}` {
			t.Fatalf("line %d: %s %v", i, line, err)
		}
	}
	b.Reset()
	n, err = auditlog.Write(t.Context(), &b, s, auditlog.Options{Format: auditlog.CSV, Since: start.Add(time.Second), Until: start.Add(3 * time.Second)})
	rows, parseErr := csv.NewReader(&b).ReadAll()
	if err != nil || parseErr != nil || n != 6 || len(rows) != 7 {
		t.Fatal(n, rows, err, parseErr)
	}
	if row := rows[1]; row[0] != "c003" || row[2] != "'=HYPERLINK(\"http://x\")" || row[5] != "a,b\n\"c\"" || row[6] != "200" {
		t.Errorf("%q", row)
	}
}
