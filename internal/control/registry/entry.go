package registry

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	v0 "github.com/modelcontextprotocol/registry/pkg/api/v0"
	"github.com/modelcontextprotocol/registry/pkg/model"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits imposed by the registry schema.
const (
	maxName    = 200 // bytes: names are ASCII
	maxLabel   = 100 // characters of a title or a description
	maxVersion = 255 // characters
)

var (
	nameRE = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)
	urlRE  = regexp.MustCompile(`^https?://[!-~]+$`) // \S would accept spaces that the schema rejects
	// rangeRE matches version ranges, which contain comparison operators, wildcards or white space.
	rangeRE = regexp.MustCompile(`[\^~<>=|*\s]|(^v?|\.)[xX](\.|-|$)`)
)

const (
	latest = "latest" // an alias, not a version

	// unversioned is the version of servers that declare no exact version.
	unversioned = "0.0.0"
)

// validName reports whether a name is valid in a registry.
func validName(name string) bool { return len(name) <= maxName && nameRE.MatchString(name) }

// entry converts a server to a registry entry, and reports whether its name is valid. The title,
// description and version are untrusted, so they are truncated or replaced.
func (s Server) entry(namespace string) (v0.ServerResponse, bool) {
	name := namespace + "/" + s.ID
	if !validName(name) {
		return v0.ServerResponse{}, false
	}
	server := v0.ServerJSON{
		Schema:      model.CurrentSchemaURL,
		Name:        name,
		Title:       label(s.Title),
		Description: cmp.Or(label(s.Description), label(s.Title), label(s.ID)),
		Version:     exactVersion(s.Version),
	}
	for _, url := range s.URLs {
		if urlRE.MatchString(url) {
			server.Remotes = append(server.Remotes, model.Transport{Type: model.TransportTypeStreamableHTTP, URL: url})
		}
	}
	if len(s.Meta) > 0 {
		server.Meta = &v0.ServerMeta{PublisherProvided: s.Meta}
	}
	at := s.Updated.UTC()
	return v0.ServerResponse{Server: server, Meta: v0.ResponseMeta{Official: &v0.RegistryExtensions{
		Status: model.StatusActive, StatusChangedAt: at, PublishedAt: at, UpdatedAt: at, IsLatest: true,
	}}}, true
}

// label truncates a text to one short line.
func label(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	return untrusted.TruncateRunes(s, maxLabel)
}

// exactVersion returns the version if it is exact, and unversioned otherwise.
func exactVersion(v string) string {
	hidden := func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }
	if v == "" || v == latest || rangeRE.MatchString(v) || strings.ContainsFunc(v, hidden) || utf8.RuneCountInString(v) > maxVersion {
		return unversioned
	}
	return v
}
