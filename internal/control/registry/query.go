package registry

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	v0 "github.com/modelcontextprotocol/registry/pkg/api/v0"

	"github.com/toolyard/toolyard/internal/trust/inbound"
)

const (
	maxValue  = 1 << 10 // bytes per parameter; enough for the cursor of the longest name
	minSearch = 3       // characters

	defaultLimit = 30
	maxLimit     = 100
)

// query selects a page of the list.
type query struct {
	after   string // last name of the previous page
	limit   int
	search  string // part of the name, in lower case
	version string // exact version; empty for all
	since   time.Time
}

// takes reports whether an entry matches. Every entry is its server's latest version.
func (q query) takes(e v0.ServerResponse) bool {
	return e.Server.Name > q.after &&
		strings.Contains(strings.ToLower(e.Server.Name), q.search) &&
		(q.version == "" || q.version == latest || q.version == e.Server.Version) &&
		!e.Meta.Official.UpdatedAt.Before(q.since)
}

// parseQuery parses the list's query. Unknown and duplicate parameters are errors, and empty
// parameters count as absent.
func parseQuery(raw string) (query, error) {
	q := query{limit: defaultLimit}
	values, err := parameters(raw, "cursor", "limit", "search", "updated_since", "version", "include_deleted")
	if err != nil {
		return q, err
	}
	q.version = values["version"]
	if q.after, err = decodeCursor(values["cursor"]); err != nil {
		return q, err
	}
	if s := values["limit"]; s != "" {
		if q.limit, err = strconv.Atoi(s); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, refuse(http.StatusUnprocessableEntity, "limit must be a whole number from 1 to 100")
		}
	}
	if s := values["search"]; s != "" {
		if utf8.RuneCountInString(strings.TrimSpace(s)) < minSearch {
			return q, refuse(http.StatusUnprocessableEntity, "search must have at least 3 characters")
		}
		q.search = strings.ToLower(s)
	}
	if s := values["updated_since"]; s != "" {
		if q.since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, refuse(http.StatusBadRequest, "updated_since must be a time such as 2026-08-07T13:15:04Z")
		}
	}
	deleted, err := includeDeleted(values["include_deleted"])
	if err == nil && deleted == "false" && !q.since.IsZero() {
		err = refuse(http.StatusBadRequest, "updated_since already includes deleted servers: omit include_deleted")
	}
	return q, err
}

// checkDetailQuery checks the query for a single server.
func checkDetailQuery(raw string) error {
	values, err := parameters(raw, "include_deleted")
	if err != nil {
		return err
	}
	_, err = includeDeleted(values["include_deleted"])
	return err
}

// includeDeleted checks a parameter that has no effect, because no server here is ever deleted.
func includeDeleted(s string) (string, error) {
	if s != "" && s != "true" && s != "false" {
		return "", refuse(http.StatusUnprocessableEntity, "include_deleted must be true or false")
	}
	return s, nil
}

// parameters parses a query in which each known parameter may occur once.
func parameters(raw string, known ...string) (map[string]string, error) {
	values, err := inbound.ParseQuery(raw, maxValue, known...)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, err.Error())
	}
	return values, nil
}

// encodeCursor returns the cursor for the page after a name.
func encodeCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

func decodeCursor(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || !validName(string(name)) {
		return "", refuse(http.StatusBadRequest, "invalid cursor: start again without one")
	}
	return string(name), nil
}
