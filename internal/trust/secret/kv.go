package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// maxResponse is the maximum size of a server's response, in bytes.
const maxResponse = 1 << 20

// kvDriver reads secrets from the key/value engine on a Vault or OpenBao server.
type kvDriver struct {
	config  Store
	client  func() (*outbound.ServerClient, error)
	resolve func(ref string) (string, error) // resolves the secret used to log in
	hide    func(token string)

	mu      sync.Mutex
	token   string    // token from the last login; may be empty
	renewAt time.Time // time of the next login
}

func newKVDriver(c Store, resolve func(string) (string, error), hide func(string)) *kvDriver {
	return &kvDriver{config: c, resolve: resolve, hide: hide, client: sync.OnceValues(func() (*outbound.ServerClient, error) {
		u, err := url.Parse(c.URL)
		if err != nil {
			return nil, errors.New("the url is invalid")
		}
		return outbound.NewServerClient(u, outbound.Network{Private: c.Private}, 2)
	})}
}

func checkKVReference(ref string) error {
	target, field, err := splitField(ref)
	switch {
	case err != nil:
		return err
	case field == "":
		return errors.New("expected PATH#FIELD")
	case strings.ContainsFunc(target, unicode.IsControl) || strings.Trim(target, "/") != target || path.Clean("/"+target) != "/"+target:
		return errors.New("the path must not begin or end with a slash or contain empty, . or .. segments")
	}
	return nil
}

// splitField splits PATH#FIELD at the last #.
func splitField(ref string) (target, field string, err error) {
	i := strings.LastIndexByte(ref, '#')
	if i <= 0 || i == len(ref)-1 {
		return "", "", errors.New("expected PATH#FIELD")
	}
	return ref[:i], ref[i+1:], nil
}

// fetch implements driver.
func (d *kvDriver) fetch(ctx context.Context, ref string) (string, error) {
	target, field, err := splitField(ref)
	if err != nil {
		return "", err
	}
	token, err := d.login(ctx, false)
	if err != nil {
		return "", err
	}
	body, err := d.read(ctx, target, token)
	if denied, ok := errors.AsType[*statusError](err); ok && denied.status == http.StatusForbidden && d.config.Login.Method != "token" {
		if token, err = d.login(ctx, true); err == nil { // the token may have been revoked
			body, err = d.read(ctx, target, token)
		}
	}
	if err != nil {
		return "", err
	}
	return member(body, field)
}

// read returns the fields of a secret as a JSON object.
func (d *kvDriver) read(ctx context.Context, target, token string) (json.RawMessage, error) {
	at := d.config.Mount + "/" + target
	if d.config.Version == 2 {
		at = d.config.Mount + "/data/" + target
	}
	var reply struct {
		Data json.RawMessage `json:"data"`
	}
	if err := d.do(ctx, http.MethodGet, at, token, nil, &reply); err != nil || d.config.Version != 2 {
		return reply.Data, err
	}
	var versioned struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(reply.Data, &versioned) != nil || len(versioned.Data) == 0 {
		return nil, errors.New("the response does not come from a version 2 key/value engine; set kv: 1, or check mount")
	}
	if string(versioned.Data) == "null" {
		return nil, goneError("the secret's current version is deleted")
	}
	return versioned.Data, nil
}

// login returns a token. A token obtained by logging in is used for two thirds of its lifetime.
func (d *kvDriver) login(ctx context.Context, again bool) (string, error) {
	secret, err := d.resolve(d.config.Login.Secret)
	if err != nil {
		return "", fmt.Errorf("auth: %w", err)
	}
	if d.config.Login.Method == "token" {
		return secret, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.token != "" && !again && time.Now().Before(d.renewAt) {
		return d.token, nil
	}
	request := map[string]string{"role": d.config.Login.Role, "jwt": secret}
	if d.config.Login.Method == "approle" {
		request = map[string]string{"role_id": d.config.Login.Role, "secret_id": secret}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", err
	}
	var reply struct {
		Auth struct {
			Token    string `json:"client_token"`
			Lifetime int64  `json:"lease_duration"`
		} `json:"auth"`
	}
	if err := d.do(ctx, http.MethodPost, "auth/"+d.config.Login.Mount+"/login", "", body, &reply); err != nil {
		return "", fmt.Errorf("login with %s: %w", d.config.Login.Method, err)
	}
	if reply.Auth.Token == "" {
		return "", fmt.Errorf("login with %s: the response contains no token", d.config.Login.Method)
	}
	d.hide(reply.Auth.Token)
	lifetime := time.Duration(min(max(reply.Auth.Lifetime, 0), int64(24*time.Hour/time.Second))) * time.Second
	d.token, d.renewAt = reply.Auth.Token, time.Now().Add(lifetime*2/3) // a token with a lifetime of zero is used only once
	return d.token, nil
}

// statusError is a response with an error status.
type statusError struct{ status int }

func (e *statusError) Error() string {
	text := fmt.Sprintf("status %d", e.status)
	if name := http.StatusText(e.status); name != "" {
		text += " " + name
	}
	switch e.status {
	case http.StatusBadRequest:
		text += "; check the namespace, the mount and the credentials"
	case http.StatusForbidden:
		text += "; check that the token is valid and that its policy allows this path in this namespace"
	case http.StatusTooManyRequests:
		text += "; the server is limiting requests"
	case http.StatusServiceUnavailable:
		text += "; the server is sealed or under maintenance"
	}
	return text
}

// do sends a request and decodes the response. It does not return the server's errors, because they
// may quote the request.
func (d *kvDriver) do(ctx context.Context, method, at, token string, body []byte, reply any) error {
	client, err := d.client()
	if err != nil {
		return err
	}
	parts := strings.Split(at, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	address := strings.TrimRight(d.config.URL, "/") + "/v1/" + strings.Join(parts, "/")
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("cannot build the request; check the url and the path")
	}
	req.Header.Set("X-Vault-Request", "true") // required by proxies that protect the server from forged requests
	if token != "" {
		req.Header.Set("X-Vault-Token", token)
	}
	if d.config.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", d.config.Namespace)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req, outbound.Limits{Body: maxResponse, Idle: fetchTimeout})
	if err != nil {
		return fmt.Errorf("cannot reach the server: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return goneError("status 404: the secret does not exist, or its current version is deleted; check the path, mount and kv")
	case res.StatusCode != http.StatusOK:
		return &statusError{res.StatusCode}
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return errors.New("cannot read the response: it is too large, or the connection was lost")
	}
	if strictjson.Check(data) != nil || json.Unmarshal(data, reply) != nil {
		return errors.New("the response is not from a Vault or OpenBao server; check the url")
	}
	return nil
}

// member returns a field in a JSON object. Values other than strings are returned as JSON.
func member(object []byte, field string) (string, error) {
	if strictjson.Check(object) != nil {
		return "", errors.New("the secret is not a JSON object")
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return "", errors.New("the secret is not a JSON object")
	}
	raw, ok := fields[field]
	if !ok || string(raw) == "null" {
		return "", goneError("the secret does not contain this field")
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	return string(raw), nil
}
