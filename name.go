package toolyard

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"regexp"
	"strings"
)

// maxWireName is the longest name that all models' function calling takes.
const maxWireName = 64

// maxToolName is the longest name that MCP takes.
const maxToolName = 128

// Naming is the scheme by which a gate names its tools.
type Naming string

// The naming schemes. The examples show the tool search of a server with the ID
// git-hub, and the local tool hello of a yard called shop. A dot in a server ID
// becomes an underscore, which no ID contains.
const (
	NamingMCP    Naming = "mcp"    // mcp_git-hub__search, hello
	NamingPlain  Naming = "plain"  // git-hub__search, hello
	NamingClient Naming = "client" // mcp_git-hub_search, mcp_shop_hello
)

// UnmarshalText decodes a naming scheme from configuration. It accepts "dotted", the
// former name of [NamingPlain].
func (n *Naming) UnmarshalText(text []byte) error {
	*n = Naming(text)
	if *n == "dotted" {
		*n = NamingPlain
	}
	return nil
}

var (
	toolNameRE = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	serverIDRE = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$`)
)

func checkToolName(name string) error {
	if !toolNameRE.MatchString(name) || len(name) > maxToolName {
		return fmt.Errorf("tool name %q: use 1 to %d of A-Z a-z 0-9 _ . -", name, maxToolName)
	}
	return nil
}

// CheckServerID reports what is wrong with a server's id.
func CheckServerID(id string) error {
	if !serverIDRE.MatchString(id) {
		return fmt.Errorf("server id %q: use letters, digits and -, with single dots between them", id)
	}
	return nil
}

// Render writes the name of a tool, which the server id (empty for a local tool) and
// the tool's own name identify, in this way of naming. The outcome has at most 64 of
// A-Z a-z 0-9 _ -; where that needs a change, a hash of the identity keeps it apart
// from all others. Names are looked up, never taken apart.
func (n Naming) Render(yard, server, tool string) string {
	before, owner, between := "mcp_", strings.ReplaceAll(server, ".", "_"), "__"
	switch {
	case n == NamingClient:
		between = "_"
		if server == "" {
			owner = yard
		}
	case server == "":
		before, between = "", ""
	case n == NamingPlain:
		before = ""
	}
	name := before + owner + between + tool
	if len(name) <= maxWireName && strings.IndexFunc(name, isOdd) < 0 {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	hash := "_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	owner, tool = fit(plain(owner), plain(tool), maxWireName-len(before)-len(between)-len(hash))
	return before + owner + between + tool + hash
}

// minOwner is how much stays of the id of a server, whatever its tools are called.
const minOwner = 12

// fit shortens the two parts of a name to a length: the owner first, because the tool says
// what is done, and then the tool.
func fit(owner, tool string, length int) (string, string) {
	owner = owner[:min(len(owner), max(minOwner, length-len(tool)))]
	return owner, tool[:min(len(tool), length-len(owner))]
}

// plain is a text with _ for each character that may not stand in a wire name.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if isOdd(r) {
			return '_'
		}
		return r
	}, text)
}

// isOdd reports whether a character may not stand in a wire name.
func isOdd(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}
