package mcpserver

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// sessionLifetime is how long a client may use one Mcp-Session-Id. Sessions cost the server
// nothing, so it can be long; afterwards the client gets 404 and initializes again.
const sessionLifetime = 7 * 24 * time.Hour

// session is what a client of the legacy era agreed on when it initialized. Over HTTP the
// client keeps it, sealed, as its Mcp-Session-Id, so that any replica can serve it and none
// has to remember it.
type session struct {
	id       string // names it in cancellations, answers and log levels; empty for a client that did not initialize
	version  string
	features json.RawMessage // the capabilities of the client that matter to us
	shared   bool            // other replicas serve it too; not the session of a connection
}

// defaultVersion is the version of a client that sends no version, as MCP has it.
const defaultVersion = "2025-03-26"

// legacyVersions are the versions of the legacy era that we speak, newest first.
var legacyVersions = slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= modernVersion })

// initialize agrees on a session. Its answer is the result of the request.
func (s *Server) initialize(params json.RawMessage) (*session, []byte, *jsonrpc.Error) {
	version, ok := strictjson.String(strictjson.Member(params, "protocolVersion"))
	if !ok {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "protocolVersion is missing"}
	}
	if !slices.Contains(legacyVersions, version) {
		version = legacyVersions[0]
	}
	result, err := json.Marshal(&mcp.InitializeResult{
		ProtocolVersion: version, Capabilities: capabilities(), Instructions: s.opts.Instructions,
		ServerInfo: &mcp.Implementation{Name: s.opts.Name, Version: s.opts.Version},
	})
	if err != nil {
		return nil, nil, errInternal // it always has a JSON form
	}
	return &session{version: version, features: featuresOf(strictjson.Member(params, "capabilities"))}, result, nil
}

// maxFeature is how many bytes of one capability are kept: a session id is a header.
const maxFeature = 256

// featuresOf are the capabilities of a client that decide what it can be asked.
func featuresOf(capabilities json.RawMessage) json.RawMessage {
	b := []byte{'{'}
	for key, value := range strictjson.Members(capabilities) {
		if !slices.Contains([]string{"elicitation", "sampling", "roots"}, key) {
			continue
		}
		if value = appendCompact(nil, value); len(value) > maxFeature {
			value = json.RawMessage("{}")
		}
		b = append(append(append(append(b, '"'), key...), `":`...), value...)
		b = append(b, ',')
	}
	return closeObject(b)
}

// sealSession makes the Mcp-Session-Id of a session.
func (s *Server) sealSession(a *access, agreed *session) string {
	return s.sessions().Seal(agreed.version+" "+string(agreed.features), sessionBinding(a), s.opts.Now().Add(sessionLifetime))
}

// openSession opens an Mcp-Session-Id. It is valid for the gate and the caller that it was made
// for, with the same rights, until it expires or is ended.
func (s *Server) openSession(a *access, sealed string) (*session, bool) {
	text, nonce, ok := s.sessions().Open(sealed, sessionBinding(a), s.opts.Now())
	if !ok {
		return nil, false
	}
	opened := &session{id: hex.EncodeToString(nonce[:]), shared: true}
	var features string
	opened.version, features, _ = strings.Cut(text, " ")
	opened.features = json.RawMessage(features)
	_, ended := s.ended.get(opened.id)
	return opened, !ended
}

func sessionBinding(a *access) []byte {
	return append(append([]byte(a.view.Gate.Name), 0), callerName(a.caller)...)
}

// callerName is all of a caller in one string: a caller with other rights is another one.
func callerName(caller toolyard.Caller) string {
	caller.Roles = slices.Sorted(slices.Values(caller.Roles))
	name, _ := json.Marshal(caller) // always has a JSON form
	return string(name)
}
