package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// apiClient sends requests to the HTTP API.
type apiClient struct {
	base, token string
	http        *http.Client
}

func newAPIClient(base, token string) *apiClient {
	return &apiClient{base, token, &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 200, DisableCompression: true}}}
}

// send sends a request. It has a body unless body is empty.
func (v *apiClient) send(ctx context.Context, method, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.base+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+v.token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return v.http.Do(r)
}

// do sends a request and reads the response, which must have status 200.
func (v *apiClient) do(ctx context.Context, method, path, body string) ([]byte, error) {
	res, err := v.send(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = refusal(fmt.Sprintf("%s %s: %s: %s", method, path, res.Status, data[:min(len(data), 600)]))
	}
	return data, err
}

// refusal is a response with another status.
type refusal string

func (r refusal) Error() string { return string(r) }

// edit makes a few edits, so that there are several versions.
func (v *apiClient) edit(ctx context.Context) error {
	for version := range 5 {
		body := fmt.Sprintf(`{"tools":[%q,%q],"version":%d}`, toolName(1), toolName(version+2), version)
		if _, err := v.do(ctx, http.MethodPut, "/toolsets/mine", body); err != nil {
			return err
		}
	}
	return nil
}
