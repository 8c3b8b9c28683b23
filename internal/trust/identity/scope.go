package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// A key with no scopes may use every read-only gate. Gate scopes restrict it to the named gates;
// other scopes grant more.
const (
	All      = "all"      // short for gate:* and write when creating a key
	Write    = "write"    // may use gates with mode write
	Viewer   = "viewer"   // may read everything that operators can read
	Operator = "operator" // may read and change everything
	Approver = "approver" // may decide on the account's calls that need approval

	gateScope = "gate:" // followed by a gate's name, or * for all gates
	anyGate   = gateScope + "*"

	// NamedGatesOnly restricts a caller to the gates in its other scopes. If there are none, the
	// caller may not use any gate.
	NamedGatesOnly = gateScope

	issuerRole = "issuer:" // followed by the name of the issuer whose access token identified the caller
)

// GateScope returns the scope for a gate, or for all gates if the name is *.
func GateScope(name string) string { return gateScope + name }

// IssuerRole returns the role of callers identified by an issuer's access token. API keys cannot
// have it.
func IssuerRole(name string) string { return issuerRole + name }

// IssuerOf returns the name of the issuer whose access token identified a caller. It is empty for
// callers with API keys.
func IssuerOf(c toolyard.Caller) string {
	for _, role := range c.Roles {
		if name, ok := strings.CutPrefix(role, issuerRole); ok {
			return name
		}
	}
	return ""
}

var gatePattern = regexp.MustCompile(`^gate:(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$`)

func checkScope(scope string) error {
	if scope == Write || scope == Viewer || scope == Operator || scope == Approver || gatePattern.MatchString(scope) {
		return nil
	}
	return fmt.Errorf("%q is not a valid scope: use gate:NAME, gate:*, write, all, viewer, approver or operator", scope)
}

// spellOut expands the scope all, sorts the scopes and removes duplicates.
func spellOut(scopes []string) []string {
	if slices.Contains(scopes, All) {
		scopes = append(slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == All }), anyGate, Write)
	}
	return slices.Compact(slices.Sorted(slices.Values(scopes)))
}

// Describe explains scopes in one or two sentences.
func Describe(scopes []string) string {
	var gates []string
	for _, scope := range scopes {
		if gate, ok := strings.CutPrefix(scope, gateScope); ok {
			gates = append(gates, gate)
		}
	}
	where, how := "every gate", "read-only: it cannot use gates with mode write (that requires --scope write)"
	if len(gates) > 0 && !slices.Contains(gates, "*") {
		where = "gate " + strings.Join(gates, ", ")
	}
	if slices.Contains(scopes, Write) {
		how = "reading and writing"
	}
	text := "It can call tools at " + where + ", " + how + "."
	switch {
	case slices.Contains(scopes, Operator):
		text += " It can view and change everything in the console and the API."
	case slices.Contains(scopes, Viewer):
		text += " It can view everything in the console and the API, but not change anything."
	}
	if slices.Contains(scopes, Approver) && !slices.Contains(scopes, Operator) {
		text += " It can approve calls for its account."
	}
	return text
}

// Approves reports whether a caller may decide on calls that need approval. Operators may decide on
// all calls, approvers only on those of their own account.
func Approves(c toolyard.Caller) bool {
	return Operates(c) || c.Authenticated() && slices.Contains(c.Roles, Approver)
}

// Views reports whether a caller may read others' data: the whole catalog, all calls and all
// accounts.
func Views(c toolyard.Caller) bool {
	return Operates(c) || c.Authenticated() && slices.Contains(c.Roles, Viewer)
}

// Operates reports whether a caller may change the configuration and others' data.
func Operates(c toolyard.Caller) bool { return c.Authenticated() && slices.Contains(c.Roles, Operator) }

// Allows returns an error if a caller, whose roles are the scopes of its key, may not use a gate.
// The error is PermissionDenied and lists the missing scopes in Missing. Unauthenticated callers
// have no scopes, so the gate's settings decide whether they are accepted.
func Allows(caller toolyard.Caller, gate *gates.Gate) error {
	if !caller.Authenticated() {
		return nil
	}
	if err := acceptsCredential(caller, gate); err != nil {
		return err
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
		Message: "The " + credential(caller) + " cannot use this gate: it lacks scope " + strings.Join(missing, " and scope ") + ".",
		Missing: missing,
	}
}

func credential(c toolyard.Caller) string {
	if IssuerOf(c) != "" {
		return "access token"
	}
	return "API key"
}

// acceptsCredential returns an error if a gate does not accept the kind of credential that
// identified the caller.
func acceptsCredential(caller toolyard.Caller, gate *gates.Gate) error {
	switch issuer := IssuerOf(caller); {
	case issuer != "" && !slices.Contains(gate.Tokens.Issuers, issuer):
		return toolyard.Errorf(toolyard.PermissionDenied, "Gate %s does not accept access tokens from this token's issuer.", gate.Name)
	case issuer == "" && gate.Tokens.Only && caller.ID != Local:
		return toolyard.Errorf(toolyard.PermissionDenied, "Gate %s accepts only access tokens. Sign in instead of sending an API key.", gate.Name)
	}
	return nil
}

// entersGate reports whether the scopes include a gate. If there are no gate scopes, all gates are
// included.
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
