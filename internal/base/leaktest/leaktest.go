// Package leaktest checks that tests leave no goroutines behind.
package leaktest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. The half second that goleak allows is too short
// on a busy machine.
const patience = time.Minute

// Main runs a package's tests and exits with an error if they leave goroutines behind.
func Main(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(&tests{m, options}, options...)
}

// VerifyNone fails a test if there are goroutines that the options do not ignore.
func VerifyNone(t testing.TB, options ...goleak.Option) {
	t.Helper()
	await(options)
	goleak.VerifyNone(t, options...)
}

// tests runs a package's tests and waits for their goroutines to end.
type tests struct {
	m       *testing.M
	options []goleak.Option
}

// Run implements goleak.TestingM.
func (t *tests) Run() int {
	code := t.m.Run()
	if code == 0 {
		await(t.options)
	}
	return code
}

// await waits until all goroutines have ended. Find itself pauses between attempts.
func await(options []goleak.Option) {
	for end := time.Now().Add(patience); goleak.Find(options...) != nil && time.Now().Before(end); {
	}
}
