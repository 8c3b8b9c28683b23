package gates

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// maxWireName is the longest function name that all model APIs accept.
const maxWireName = 64

// Naming is a gate's naming scheme for tools.
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

// Render returns a tool's name in this scheme. A tool is identified by its server ID (empty for a
// local tool) and its own name. The result has at most 64 characters from A-Z a-z 0-9 _ -. If the
// name has to be changed to fit, a hash of the identity keeps it unique. Names are looked up, never
// parsed.
func (n Naming) Render(yard, server, tool string) string {
	prefix, owner, separator := "mcp_", strings.ReplaceAll(server, ".", "_"), "__"
	switch {
	case n == NamingClient:
		separator = "_"
		if server == "" {
			owner = yard
		}
	case server == "":
		prefix, separator = "", ""
	case n == NamingPlain:
		prefix = ""
	}
	name := prefix + owner + separator + tool
	if len(name) <= maxWireName && strings.IndexFunc(name, isForbidden) < 0 {
		return name
	}
	sum := sha256.Sum256([]byte(server + "\x00" + tool))
	hash := "_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
	owner, tool = shorten(sanitize(owner), sanitize(tool), maxWireName-len(prefix)-len(separator)-len(hash))
	return prefix + owner + separator + tool + hash
}

// minOwner is the minimum number of a server ID's characters that remain in a name.
const minOwner = 12

// shorten shortens the two parts of a name to a total length. It shortens the owner first, because
// the tool name describes what the tool does.
func shorten(owner, tool string, length int) (string, string) {
	owner = owner[:min(len(owner), max(minOwner, length-len(tool)))]
	return owner, tool[:min(len(tool), length-len(owner))]
}

// sanitize replaces characters that are not allowed in a name with underscores.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if isForbidden(r) {
			return '_'
		}
		return r
	}, s)
}

func isForbidden(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}
