package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// A key may read at every gate. Scopes give it more, except for gate scopes, which limit it to the
// gates that they name.
const (
	All      = "all"      // short for gate:* and write, when a key is made
	Write    = "write"    // to enter gates that may change things
	Viewer   = "viewer"   // to see all that operators see
	Operator = "operator" // to see it and to change it

	gateScope = "gate:" // followed by the name of a gate, or a star for all
	anyGate   = gateScope + "*"
)

var gatePattern = regexp.MustCompile(`^gate:(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$`)

func checkScope(scope string) error {
	if scope == Write || scope == Viewer || scope == Operator || gatePattern.MatchString(scope) {
		return nil
	}
	return fmt.Errorf("%q is not a scope: use gate:NAME, gate:*, write, all, viewer or operator", scope)
}

// spellOut replaces all by what it is short for, sorts scopes and drops duplicates.
func spellOut(scopes []string) []string {
	if slices.Contains(scopes, All) {
		scopes = append(slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == All }), anyGate, Write)
	}
	return slices.Compact(slices.Sorted(slices.Values(scopes)))
}

// Describe says in a sentence or two what a key with some scopes may do.
func Describe(scopes []string) string {
	var gates []string
	for _, scope := range scopes {
		if gate, ok := strings.CutPrefix(scope, gateScope); ok {
			gates = append(gates, gate)
		}
	}
	where, how := "every gate", "read-only: it may not enter gates with mode write (that takes --scope write)"
	if len(gates) > 0 && !slices.Contains(gates, "*") {
		where = "gate " + strings.Join(gates, ", ")
	}
	if slices.Contains(scopes, Write) {
		how = "reading and writing"
	}
	text := "It may call tools at " + where + ", " + how + "."
	switch {
	case slices.Contains(scopes, Operator):
		text += " It may see and change everything in the console and the API."
	case slices.Contains(scopes, Viewer):
		text += " It may see everything in the console and the API, and change nothing."
	}
	return text
}

// Views reports whether a caller may see what concerns others: the whole catalog, all calls,
// all accounts.
func Views(c toolyard.Caller) bool {
	return Operates(c) || c.Authenticated() && slices.Contains(c.Roles, Viewer)
}

// Operates reports whether a caller may change what concerns others.
func Operates(c toolyard.Caller) bool { return c.Authenticated() && slices.Contains(c.Roles, Operator) }

// Allows reports whether a caller, whose roles are the scopes of a key, may enter a gate. Its
// error is Denied and names all the scopes that are missing, also in Needs. A gate decides by
// itself whether it takes unauthenticated callers; they have no scopes.
func Allows(caller toolyard.Caller, gate *gates.Gate) error {
	if !caller.Authenticated() {
		return nil
	}
	var missing []string
	if !entersGate(caller.Roles, gate.Name) {
		missing = append(missing, gateScope+gate.Name)
	}
	if gate.Mode == toolyard.Write && !slices.Contains(caller.Roles, Write) {
		missing = append(missing, Write)
	}
	if len(missing) == 0 {
		return nil
	}
	return &toolyard.Error{
		Code:    toolyard.PermissionDenied,
		Message: "The API key may not enter this gate: it lacks the scope " + strings.Join(missing, " and the scope ") + ".",
		Missing: missing,
	}
}

// entersGate reports whether scopes let their caller into a gate. Those that name no gate
// at all restrict none.
func entersGate(scopes []string, gate string) bool {
	named := false
	for _, scope := range scopes {
		if scope == anyGate || scope == gateScope+gate {
			return true
		}
		named = named || strings.HasPrefix(scope, gateScope)
	}
	return !named
}
