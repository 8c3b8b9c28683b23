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

// sessionLifetime is how long an Mcp-Session-Id is valid. It can be long because the server stores
// nothing. After that, the client gets 404 and initializes again.
const sessionLifetime = 7 * 24 * time.Hour

// session is an MCP session of the legacy era. Over HTTP, the client stores the sealed session as
// its Mcp-Session-Id, so that any replica can serve it without shared state.
type session struct {
	id       string // used for cancellations, answers and log levels; empty if the client did not initialize
	version  string
	features json.RawMessage // client capabilities that the server uses
	shared   bool            // served by any replica; false for connections
}

// defaultVersion is the version that MCP specifies for clients that send none.
const defaultVersion = "2025-03-26"

// legacyVersions are the supported versions of the legacy era, newest first.
var legacyVersions = slices.DeleteFunc(mcp.SupportedProtocolVersions(), func(v string) bool { return v >= modernVersion })

// initialize negotiates a session and returns the result of the initialize request.
func (s *Server) initialize(params json.RawMessage) (*session, []byte, *jsonrpc.Error) {
	version, ok := strictjson.String(strictjson.Member(params, "protocolVersion"))
	if !ok {
		return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "protocolVersion is missing"}
	}
	if !slices.Contains(legacyVersions, version) {
		version = legacyVersions[0]
	}
	result, err := json.Marshal(&mcp.InitializeResult{
		ProtocolVersion: version, Capabilities: capabilities(),
		ServerInfo: &mcp.Implementation{Name: s.opts.Name, Version: s.opts.Version},
	})
	if err != nil {
		return nil, nil, errInternal // cannot happen: the result can always be encoded
	}
	return &session{version: version, features: featuresOf(strictjson.Member(params, "capabilities"))}, result, nil
}

// maxFeature is the maximum size of a stored capability in bytes. It is small because session IDs
// are sent in a header.
const maxFeature = 256

// featuresOf returns the capabilities that determine which questions a client can answer.
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

// sealSession returns a session's Mcp-Session-Id.
func (s *Server) sealSession(a *access, agreed *session) string {
	return s.legacy.sessionSealer.Seal(agreed.version+" "+string(agreed.features), sessionBinding(a), s.opts.Now().Add(sessionLifetime))
}

// openSession decrypts an Mcp-Session-Id. The ID is valid only at the same gate and for the same
// caller with the same scopes, until the session expires or ends.
func (s *Server) openSession(a *access, sealed string) (*session, bool) {
	text, nonce, ok := s.legacy.sessionSealer.Open(sealed, sessionBinding(a), s.opts.Now())
	if !ok {
		return nil, false
	}
	opened := &session{id: hex.EncodeToString(nonce[:]), shared: true}
	var features string
	opened.version, features, _ = strings.Cut(text, " ")
	opened.features = json.RawMessage(features)
	_, ended := s.legacy.ended.get(opened.id)
	return opened, !ended
}

func sessionBinding(a *access) []byte {
	return append(append([]byte(a.view.Gate.Name), 0), callerName(a.caller)...)
}

// callerName encodes a caller, including its scopes.
func callerName(caller toolyard.Caller) string {
	caller.Roles = slices.Sorted(slices.Values(caller.Roles))
	name, _ := json.Marshal(caller) // cannot fail
	return string(name)
}
