package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
)

// Scopes restrict what a key is good for. A key without any is good for every gate, and
// only the operator's own interface asks for more.
const (
	Write    = "write"    // to enter gates that may change things
	Viewer   = "viewer"   // to see all that operators see; never implied
	Operator = "operator" // to see it and to change it; never implied

	gateScope = "gate:" // followed by the name of a gate, or a star for all
	anyGate   = gateScope + "*"
)

var gatePattern = regexp.MustCompile(`^gate:(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$`)

func checkScope(scope string) error {
	if scope == Write || scope == Viewer || scope == Operator || gatePattern.MatchString(scope) {
		return nil
	}
	return fmt.Errorf("%q is not a scope: use gate:NAME, gate:*, write, viewer or operator", scope)
}

// Views reports whether a caller may see what concerns others: the whole catalog, all calls,
// all accounts.
func Views(c toolyard.Caller) bool {
	return Operates(c) || c.Known() && slices.Contains(c.Roles, Viewer)
}

// Operates reports whether a caller may change what concerns others.
func Operates(c toolyard.Caller) bool { return c.Known() && slices.Contains(c.Roles, Operator) }

// Allows reports whether a caller, whose roles are the scopes of a key, may enter a gate. Its
// error is Denied and names all the scopes that are missing, also in Needs.
func Allows(caller toolyard.Caller, gate *toolyard.Gate) error {
	if len(caller.Roles) == 0 {
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
		Code:    toolyard.Denied,
		Message: "The API key is not good for this gate: it lacks the scope " + strings.Join(missing, " and the scope ") + ".",
		Needs:   missing,
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
