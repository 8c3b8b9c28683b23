// Package ident defines identifiers: the syntax of tool names and server IDs, and call IDs, which
// sort by time.
package ident

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"regexp"
	"time"
)

// Anonymous is the ID of an unauthenticated caller.
const Anonymous = "anonymous"

// ExternalCategory is the category of all tools on MCP servers. Other tools cannot declare it.
const ExternalCategory = "external"

// SurfaceBoth is the text form of an empty surface.
const SurfaceBoth = "both"

// maxToolName is the maximum length of a tool name in MCP.
const maxToolName = 128

var (
	toolNameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	serverIDRE = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$`)
)

// CheckToolName returns an error if name is not a valid tool name.
func CheckToolName(name string) error {
	if !toolNameRE.MatchString(name) || len(name) > maxToolName {
		return fmt.Errorf("tool name %q: must be 1 to %d characters from A-Z a-z 0-9 _ . -", name, maxToolName)
	}
	return nil
}

// CheckServerID returns an error if id is not a valid server ID.
func CheckServerID(id string) error {
	if !serverIDRE.MatchString(id) {
		return fmt.Errorf("server id %q: use letters, digits and -, with single dots between them", id)
	}
	return nil
}

var callEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// callIDSize is the size of a call ID in bytes. The first six bytes are milliseconds since 1970,
// and the rest is random.
const callIDSize = 16

// NewCallID returns an ID for a call that starts at the given time.
func NewCallID(start time.Time) string {
	var b [callIDSize]byte
	binary.BigEndian.PutUint64(b[:8], uint64(start.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // cannot fail
	return callEncoding.EncodeToString(b[:])
}

// CallTime returns the start time in a call ID, to the millisecond. It returns false for an ID that
// [NewCallID] cannot have returned.
func CallTime(id string) (start time.Time, ok bool) {
	b, err := callEncoding.DecodeString(id)
	if err != nil || len(b) != callIDSize {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:8]) >> 16)).UTC(), true
}
