package accesstoken

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// maxToken is the maximum length of a token in bytes.
const maxToken = 8 << 10

// Reason identifies the check that a token failed. It is logged for operators but not sent to
// callers.
type Reason string

// The reasons.
const (
	malformed   Reason = "MALFORMED"
	algorithm   Reason = "ALG"
	unknownKey  Reason = "KID"
	signature   Reason = "SIG"
	tokenType   Reason = "TYP"
	wrongIssuer Reason = "ISS"
	audience    Reason = "AUD"
	lifetime    Reason = "EXP"
	subject     Reason = "SUB"
	NoRule      Reason = "RULE" // no access rule matches the caller
)

// refusal is the error for a refused token. It never contains the token.
type refusal struct {
	reason Reason
	detail string
}

func refuse(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// ReasonOf returns the reason if a token was refused. It returns "" for other errors, for example
// if an issuer is not responding.
func ReasonOf(err error) Reason {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.reason
	}
	return ""
}

func (r *refusal) Error() string { return string(r.reason) + ": " + r.detail }

// unverified is a token whose signature has not been verified yet.
type unverified struct {
	algorithm, keyID, typ string
	issuer                string // only used to choose the keys
	payload               json.RawMessage
}

// signedForm reports whether a string looks like a signed JSON Web Token.
func signedForm(token string) bool {
	return strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") == 2
}

// parse splits a token and decodes its header. It accepts only the compact serialization in its
// canonical encoding, and rejects header parameters that affect how the token is verified.
func parse(token string) (*unverified, *refusal) {
	if len(token) > maxToken {
		return nil, refuse(malformed, "the token is %d bytes; the limit is %d", len(token), maxToken)
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, refuse(malformed, "the token has %d parts, not 3", len(parts))
	}
	header, err := decodePart(parts[0])
	if err != nil {
		return nil, refuse(malformed, "header: %v", err)
	}
	payload, err := decodePart(parts[1])
	if err != nil {
		return nil, refuse(malformed, "payload: %v", err)
	}
	if _, err := decodeBase64(parts[2]); err != nil || parts[2] == "" {
		return nil, refuse(signature, "the signature is not base64url")
	}
	u := &unverified{payload: payload}
	for name, value := range strictjson.Members(header) {
		var target *string
		switch name {
		case "alg":
			target = &u.algorithm
		case "kid":
			target = &u.keyID
		case "typ":
			target = &u.typ
		case "crit", "b64", "jwk", "jku", "x5u", "x5c", "zip", "enc":
			return nil, refuse(malformed, "header parameter %s is not accepted", name)
		default:
			continue
		}
		text, ok := strictjson.String(value)
		if !ok || len(text) > maxName {
			return nil, refuse(malformed, "header parameter %s is not a string or is too long", name)
		}
		*target = text
	}
	issuer, ok := strictjson.String(strictjson.Member(payload, "iss"))
	if !ok {
		return nil, refuse(wrongIssuer, "the token has no issuer")
	}
	u.issuer = issuer
	return u, nil
}

// maxName is the maximum length of a key ID and other names in a token.
const maxName = 1 << 10

// decodePart decodes a part of a token that must be a JSON object.
func decodePart(text string) (json.RawMessage, error) {
	raw, err := decodeBase64(text)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("the value is not a JSON object")
	}
	return raw, nil
}

// decodeBase64 decodes base64url in its canonical form. The standard library's decoder would ignore
// line breaks.
func decodeBase64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("the base64url text contains line breaks")
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
