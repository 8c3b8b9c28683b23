package httpapi

import (
	"net/http"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

// The table of codes in the contract says of each code what the program does with it.
func TestTheContractListsEveryCode(t *testing.T) {
	contract, err := os.ReadFile("../../../docs/CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	type facts struct{ Retryable, Correctable, Status string }
	yes := map[bool]string{true: "yes", false: "no"}
	want, got := make(map[toolyard.Code]facts), make(map[toolyard.Code]facts)
	for _, code := range toolyard.Codes {
		status, ok := statuses[code]
		if !ok {
			status = http.StatusOK
		}
		want[code] = facts{yes[code.Retryable()], yes[code.Correctable()], strconv.Itoa(status)}
	}
	unavailable := want[toolyard.Unavailable]
	unavailable.Retryable = "with `retryAfterMs`"
	want[toolyard.Unavailable] = unavailable
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| [^|]+ \\| ([^|]+) \\| ([^|]+) \\| (\\d{3}) \\|$").FindAllStringSubmatch(string(contract), -1) {
		got[toolyard.Code(row[1])] = facts{row[2], row[3], row[4]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/CONTRACT.md differs from the code (-code +docs):\n%s", diff)
	}
}
